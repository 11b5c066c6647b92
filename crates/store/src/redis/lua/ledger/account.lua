-- An account from its keys, moved to the server's time, and back into them.

local MAX_DOUBT, MARGIN, STEPPED_BACK = 60000000000, 60000000000, 1000000000
-- Holders meet a new server within this time. Until then they send what they hold, of which it may not know.
local REJOIN, YOUNG = 1000000000, 2000000000
-- Data of the call: identity of the ledger, and texts that are written only if they changed.
local ledger, waiting_text, has_removed

-- Reads the identity of the ledger. Another one than the caller knows means that the server lost its data.
local function open_ledger(arguments)
  ARGV = arguments
  local found = redis.call('HMGET', ARGV[1] .. 'ledger', 'id', 'origin', 'doubt', 'moved', 'opens')
  if found[1] ~= ARGV[2] then error('LOSTLEDGER', 0) end
  ledger = {
    origin = tonumber(found[2]), doubt = tonumber(found[3]), moved = tonumber(found[4]), opens = tonumber(found[5]),
  }
  local time = redis.call('TIME')
  server_now = time[1] * 1000000 + time[2]
end

local function account_time(server_time) return (server_time - ledger.origin) * 1000 + head[SHIFT] end

-- Moves to the server's time. A clock that was set back by more than a moment is followed from there, so that
-- time does not stand still until it is back.
local function move_to_now()
  local now = account_time(server_now)
  if now < head[LATEST] - STEPPED_BACK then
    head[SHIFT] = head[SHIFT] + head[LATEST] - now
    now = head[LATEST]
  end
  latest = max(head[LATEST], now)
  head[LATEST] = latest
end

-- Returns a time of the server, which its clock may have passed before it was set back.
local function past_time(server_time) return min(account_time(server_time), latest) end

local function close_for_window(since, most)
  local longest = 0
  for _, limit in ipairs(limits) do longest = max(longest, limit.window) end
  for _, rule in ipairs(read_rules(holder.rules_text)) do longest = max(longest, rule.window) end
  head[CLOSED_UNTIL] = max(head[CLOSED_UNTIL], past_time(since) + min(longest, most) + REJOIN)
end

-- Grants nothing for a window after the server lost its data, and for at most a minute of it after the server
-- was replaced: it may miss the last moments.
local function notice_replacement()
  if ledger.doubt ~= head[LOST] then
    head[LOST] = ledger.doubt
    head[UNKNOWN_BEFORE] = max(1, past_time(ledger.doubt))
    close_for_window(ledger.doubt, huge)
  end
  if ledger.moved ~= head[MOVED] then
    head[MOVED] = ledger.moved
    close_for_window(ledger.moved, MAX_DOUBT)
  end
  if ledger.opens ~= head[OPENED] then
    head[OPENED] = ledger.opens
    head[CLOSED_UNTIL] = max(head[CLOSED_UNTIL], min(account_time(ledger.opens), latest + YOUNG))
  end
end

local function load_account(account, name)
  account_key = ARGV[1] .. 'a:' .. account
  local found = redis.call('HMGET', account_key, 'head', 'limits', 'waits', name)
  head = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  if found[1] then head = read_numbers(found[1], HEAD_NUMBERS) end
  limits, waiting_text = read_limits(found[2] or ''), found[3] or ''
  waiting = read_waiting(waiting_text)
  move_to_now()
  for _, limit in ipairs(limits) do advance_limit(limit) end
  -- The holder itself may be gone.
  local text = found[4]
  has_removed = remove_gone()
  if has_removed then text = redis.call('HGET', account_key, name) end
  holder = text and read_holder(text)
end

-- Lets the server forget the keys once nothing of the account counts.
local function forget_later(account)
  local longest = 0
  for _, limit in ipairs(limits) do
    longest = max(longest, limit.window, limit.capacity * limit.window / limit.quantity)
  end
  local counts_until = max(gone_at(holder), holder.deadline + holder.timeout, head[FACTS_END], head[CLOSED_UNTIL])
  local needed = counts_until + longest + MARGIN
  if needed <= head[FORGOTTEN] then return end
  head[FORGOTTEN] = needed + (needed - latest)
  local millis = string.format('%.0f', ceil((head[FORGOTTEN] - latest) / 1000000))
  redis.call('PEXPIRE', account_key, millis)
  for _, limit in ipairs(limits) do
    if limit.ring then redis.call('PEXPIRE', ring_key(limit), millis) end
  end
  redis.call('ZADD', ARGV[1] .. 'accounts', server_now + (head[FORGOTTEN] - latest) / 1000, account)
end

-- Writes what holders share. The removal of one must not be lost, even if nothing else changed.
local function save_shared(...)
  local fields, written = { 'head', pack_numbers(head), 'limits', write_limits(limits), ... }, write_waiting()
  if written ~= waiting_text then
    fields[#fields + 1] = 'waits'
    fields[#fields + 1] = written
  end
  redis.call('HSET', account_key, unpack(fields))
end

local function save_account(account, name)
  head[NONE_GONE] = min(head[NONE_GONE], gone_at(holder))
  remove_waiting(name)
  if holder.want_calls > 0 then
    waiting[#waiting + 1] = {
      name = name, tag = holder.tag, want_calls = holder.want_calls, want_cost = holder.want_cost,
      want_first = holder.want_first, deadline = holder.deadline, due = holder.due,
    }
  end
  forget_later(account)
  save_shared(name, write_holder(holder))
end
