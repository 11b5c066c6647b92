-- Lists accounts in use, page by page, and forgets one.

local PAGE = 100

-- ARGV: prefix, identity of the ledger, cursor. The reply is the next cursor or nothing, then for each account
-- its name, numbers (age of the last change, then those of each limit in force as in a renewal) and the
-- held calls and cost of each holder.
local function list_accounts()
  local registry, from = ARGV[1] .. 'accounts', tonumber(ARGV[3])
  redis.call('ZREMRANGEBYSCORE', registry, '-inf', server_now)
  local names = redis.call('ZRANGE', registry, from, from + PAGE - 1)
  local reply = { #names == PAGE and tostring(from + PAGE) or '' }
  for _, account in ipairs(names) do
    account_key = ARGV[1] .. 'a:' .. account
    local fields, numbers, holds = redis.call('HGETALL', account_key), {}, {}
    local texts = {}
    for i = 1, #fields, 2 do texts[fields[i]] = fields[i + 1] end
    if texts.head then
      head, limits = read_numbers(texts.head, HEAD_NUMBERS), read_limits(texts.limits)
      numbers[1] = account_time(server_now) - head[LATEST]
      move_to_now()
      for _, limit in ipairs(limits) do
        advance_limit(limit)
      end
      add_usage(numbers)
      for name, text in pairs(texts) do
        if #name == NAME_BYTES then
          local one = read_holder(text)
          holds[#holds + 1] = one.held_calls
          holds[#holds + 1] = one.held_cost
        end
      end
      reply[#reply + 1] = account
      reply[#reply + 1] = pack_sent(numbers)
      reply[#reply + 1] = #holds == 0 and '' or pack_sent(holds)
    end
  end
  return reply
end

-- Forgets arrivals and closings, as the core's `forget_arrivals`: holders keep their units, and facts hold.
--
-- ARGV: prefix, identity of the ledger, account.
local function forget_account()
  account_key = ARGV[1] .. 'a:' .. ARGV[3]
  local found = redis.call('HMGET', account_key, 'head', 'limits')
  if not found[1] then return 0 end
  head, limits = read_numbers(found[1], HEAD_NUMBERS), read_limits(found[2])
  move_to_now()
  head[UNKNOWN_BEFORE], head[CLOSED_UNTIL] = 0, 0
  head[LOST], head[MOVED], head[OPENED] = ledger.doubt, ledger.moved, ledger.opens
  for place, limit in ipairs(limits) do
    if limit.ring then redis.call('DEL', ring_key(limit)) end
    limits[place] = new_limit(limit)
    advance_limit(limits[place])
  end
  redis.call('HSET', account_key, 'head', pack_numbers(head), 'limits', write_limits(limits))
  return 1
end
