-- Settles claims of a session: the fast path, where all are simply done.
--
-- ARGV: prefix, epoch, session, the numbers of the claims in one text, then in one text the
-- durations if all are done without a stored result and none comes twice; the ages of the calls that
-- hold units in one text, or nothing if there are none; and unless all are simply done, one text for
-- each: kind, four numbers, and the rest.
--
-- A plain job that is done is a field less in its session and one more in its tenant's counts. A
-- job that needs more, or whose tenant is at its bound, takes the general path; so do cancelled
-- claims.

-- The general path.
local general
local HEAD = 29
local A_FENCED = 6
local TOOK_SIZE = 7

-- The session's key, the number of claims, their fields, the entries found, their durations.
local session_key, ends, fields, found, durations

-- Kind and four numbers of a settlement.
local function form_of(i)
  if durations ~= '' then return { 1, (unpacked('>I7', durations, TOOK_SIZE * (i - 1) + 1)), 0, 0, 0 } end
  return { unpacked('>BI7I7I7I7', ARGV[6 + i]) }
end

-- Formats of several spans, made once: unpacking many at once costs a third of one at a time.
local SPANS, PIECE = {}, 100
local function spans_form(many)
  SPANS[many] = SPANS[many] or '>' .. string.rep('I7', many)
  return SPANS[many]
end

-- Durations of the claims.
local function spans()
  local all = {}
  for first = 0, ends - 1, PIECE do
    local many = min(PIECE, ends - first)
    local some = { unpacked(spans_form(many), durations, TOOK_SIZE * first + 1) }
    if ends <= PIECE then return some end
    for i = 1, many do all[first + i] = some[i] end
  end
  return all
end

-- Done jobs and their durations by tenant, or nothing.
local function plain_ends()
  local order, many, busy, gone, took_each = {}, {}, {}, {}, spans()
  for i = 1, ends do
    local packed = found[i]
    if packed then
      local class, lane_len, tenant_len = byte(packed, 1, 3)
      local after = 4 + lane_len + tenant_len
      if class >= HOLDS or byte(packed, after + PLACE_SIZE) > 0 then return end
      local name, took = sub(packed, 4 + lane_len, after - 1), took_each[i]
      local had = many[name]
      if had then
        many[name], busy[name] = had + 1, busy[name] + took
      else
        order[#order + 1], many[name], busy[name] = name, 1, took
      end
      gone[#gone + 1] = fields[i]
    end
  end
  return order, many, busy, gone
end

-- New values of the tenants, and the tenants without further work; or nothing.
local function plain_tenants(order, many, busy)
  local packed, set, idle, time = read_all(K.t, order), {}, {}, score(now)
  for i = 1, #order do
    local name, text = order[i], packed[i]
    if not text then return end
    local mark, claim, slots, flight, done, worked = unpacked(HEAD_FORM, text)
    if mark % 2 == BOUNDED or (claim == 0 and usual[2] > 0) then return end
    local ended = many[name]
    flight = flight - ended
    set[2 * i - 1] = name
    set[2 * i] = pack(HEAD_FILLED, mark, claim, slots, flight, done + ended, worked + busy[name], HEAD_FILL)
    if slots + flight == 0 and mark % 4 < ELSEWHERE then
      idle[#idle + 1] = time
      idle[#idle + 1] = name
    end
  end
  return set, idle
end

-- One reply for all, unless some claims are gone.
local function plain_answer(gone)
  if #gone == ends then return 1 end
  local answers = {}
  for i = 1, ends do answers[i] = found[i] and 1 or A_FENCED end
  return answers
end

local function settle_plain()
  if durations == '' then return end
  local order, many, busy, gone = plain_ends()
  if not order or #gone == 0 then return end
  local set, idle = plain_tenants(order, many, busy)
  if not set then return end
  write_all('HDEL', session_key, gone)
  write_all('HSET', K.t, set)
  if #idle > 0 then
    write_all('ZADD', K.idle, idle)
    g[15] = g[15] - #idle / 2
  end
  for _, name in ipairs(order) do g[11] = g[11] + busy[name] end
  g[5], g[6] = g[5] - #gone, g[6] + #gone
  save_counts()
  return plain_answer(gone)
end

local function all_fenced()
  local answers = {}
  for i = 1, ends do answers[i] = A_FENCED end
  return answers
end

function steps.settle()
  session_key, durations = P .. 's:' .. ARGV[3], ARGV[5]
  local claims, expiry = ARGV[4], call('ZSCORE', K.sessions, ARGV[3])
  ends, fields = #claims / CLAIM_SIZE, {}
  if ends == 0 or not expiry or tonumber(expiry) <= now then return all_fenced() end
  for i = 1, ends do fields[i] = sub(claims, CLAIM_SIZE * (i - 1) + 1, CLAIM_SIZE * i) end
  found = read_all(session_key, fields)
  return settle_plain() or general()
end
