-- Hands out jobs of a lane in fair order: the fast path, for plain jobs without limits.
--
-- ARGV: prefix, epoch, lane, session, limit, lease, cost of the jobs or nothing, nothing if no limits
-- apply or else the rate of all tenants per second, or 0.
--
-- The first tenants are read in packed form, as numbers in lists. If anything is not plain (a
-- bound, a pause, a returned job, an action), nothing has been written yet and the general path
-- does all of it.

-- The general path.
local general
-- Request, first tenants of the order, and true if limits apply. The lane also has the `wanted` cost of
-- the jobs, and the `other` cost of the next job.
local lane, session, session_key, most, lease, leased, ahead, planned
local FURTHEST = 2 ^ 32
local SHORT = 'the list is shorter than was counted'

-- A lost session starts again; its old claims stay for the reaper under an unused name.
local function begin_session()
  local expiry = call('ZSCORE', K.sessions, session)
  if expiry and tonumber(expiry) <= now and call('EXISTS', session_key) == 1 then
    g[1] = g[1] + 1
    local old = session .. ' ' .. g[1]
    call('RENAME', session_key, P .. 's:' .. old)
    call('ZADD', K.sessions, expiry, old)
  end
end

-- Stores the lease as soon as the session holds a claim: claims without a lease would never be
-- recovered.
local function lease_session()
  if not leased then call('ZADD', K.sessions, now + lease, session) end
  leased = true
end

-- Claim numbers are consecutive from the first.
local function claim_answer(next, expired, first, entries)
  lease_session()
  return { next and max(0, floor(next)) or -1, expired, first or 0, entries or {}, { lane.other } }
end

-- Reads the first slots if all of them are plain: lists of numbers, in order. The mark of a plain
-- slot in the order is its class.
local function plain_slots(found, packed)
  local marks, places, indexes, counts, paces = {}, {}, {}, {}, {}
  for i = 1, #ahead do
    local slot, tenant = found[i + 1], packed[i]
    if not slot or #slot ~= PLAIN_SIZE or not tenant then return end
    local mark, place, index, jobs = unpacked(PLAIN_SLOT, slot)
    local bounds, claim = unpacked('>Bd', tenant)
    if mark > 3 or bounds % 2 == BOUNDED or place > FURTHEST then return end
    if claim == 0 then
      if usual[2] > 0 then return end
      claim = usual[1]
    end
    marks[i], places[i], indexes[i], counts[i], paces[i] = mark, place, index, jobs, 1 / (claim * FACTOR[mark])
  end
  return { marks = marks, places = places, indexes = indexes, counts = counts, paces = paces, took = {} }
end

-- Determines the turns: unserved tenants by place, and served ones by their new place. Returns the
-- clock's advance.
local function serve(slots, clock)
  local places, counts, paces, took = slots.places, slots.counts, slots.paces, slots.took
  local order, served, first, last, waiting = {}, {}, 1, 0, 1
  for turn = 1, most do
    local a, b, i = places[waiting], served[first], nil
    if a and (not b or a <= places[b]) then
      i, waiting = waiting, waiting + 1
    elseif b then
      i, first = b, first + 1
    else
      break
    end
    local place, had = places[i], (took[i] or 0) + 1
    if place > clock then clock = place end
    place = place + paces[i]
    places[i], took[i], order[turn] = place, had, i
    if had < counts[i] then
      local at = last
      while at >= first and places[served[at]] > place do
        served[at + 1] = served[at]
        at = at - 1
      end
      served[at + 1], last = i, last + 1
    end
  end
  return order, clock, waiting - 1
end

local function put_back(keys, lists, many)
  for i = many, 1, -1 do
    local records = lists[i]
    if type(records) == 'string' then records = { records } end
    for n = #records, 1, -1 do redis.call('LPUSH', keys[i], records[n]) end
  end
end

-- Takes records of a list: one as it is, several as a list. Returns an error, if any.
local function pop(key, wants)
  if wants == 1 then
    local record = redis.pcall('LPOP', key)
    if type(record) == 'string' then return record end
    return {}, record and record.err or SHORT
  end
  local records = redis.pcall('LPOP', key, wants)
  if not records then return {}, SHORT end
  return records, records.err or (#records < wants and SHORT)
end

-- Takes the records of the served tenants. These are the first writes: if one fails, the records
-- are put back.
local function take_plain(slots, many)
  local keys, lists, begins = {}, {}, { lists_of(lane, 1), lists_of(lane, 2), lists_of(lane, 3) }
  local marks, took = slots.marks, slots.took
  for i = 1, many do
    local key = begins[marks[i]] .. ahead[i]
    local records, wrong = pop(key, took[i])
    keys[i], lists[i] = key, records
    if wrong then
      put_back(keys, lists, i)
      if wrong == SHORT then mend_list(lane.name, ahead[i], marks[i]) end
      error('BADKEY ' .. key .. ' ' .. wrong, 0)
    end
  end
  return keys, lists
end

-- Small numbers in two bytes, made once: packing costs more than a lookup.
local FIRST = '\0\0'
local TWO_BYTES = { [0] = FIRST }
local function two_bytes(number)
  local text = pack('>H', number)
  TWO_BYTES[number] = text
  return text
end

-- Common start of each tenant's entries: the shared part of `ENTRY_HEAD` and `ENTRY_PLACE`.
local PLAIN_HEAD = '>BBBc0c0I6'
local function heads_of(slots, many)
  local heads, name, marks, indexes = {}, lane.name, slots.marks, slots.indexes
  for i = 1, many do
    local tenant = ahead[i]
    heads[i] = pack(PLAIN_HEAD, marks[i], #name, #tenant, name, tenant, indexes[i])
  end
  return heads
end

local function give_plain(slots, order, many)
  local keys, lists = take_plain(slots, many)
  local heads, took, used, entries, fields, number = heads_of(slots, many), slots.took, {}, {}, {}, g[1]
  for turn = 1, #order do
    local i = order[turn]
    local claim, entry = pack(CLAIM_FORM, number + turn), nil
    if took[i] == 1 then
      entry = heads[i] .. FIRST .. claim .. lists[i]
    else
      local had = used[i] or 0
      used[i] = had + 1
      entry = heads[i] .. (TWO_BYTES[had] or two_bytes(had)) .. claim .. lists[i][had + 1]
    end
    entries[turn], fields[2 * turn - 1], fields[2 * turn] = entry, claim, entry
  end
  for from = 1, #fields, CHUNK do
    local done = redis.pcall('HSET', session_key, unpack(fields, from, min(from + CHUNK - 1, #fields)))
    if type(done) == 'table' and done.err then
      put_back(keys, lists, many)
      error('BADKEY ' .. session_key .. ' ' .. done.err, 0)
    end
  end
  wrote = true
  lease_session()
  return entries
end

-- Removes tenants without jobs. While others wait, such a tenant owes its lead over the clock.
local function leave_plain(gone, places)
  local meta, owes, names = lane.meta, {}, {}
  for at = 1, #gone do
    local i = gone[at]
    local name, place = ahead[i], places[i]
    if place > meta[1] and meta[2] > 0 then
      owes[#owes + 1] = score(place)
      owes[#owes + 1] = name
    end
    names[at] = name
  end
  if #owes > 0 then
    write_all('ZADD', lane.owed, owes)
    meta[7] = 1
  end
  write_all('ZREM', lane.fair, names)
  write_all('HDEL', lane.key, names)
end

local function save_plain(slots, packed, many)
  local places, took, counts, marks, indexes = slots.places, slots.took, slots.counts, slots.marks, slots.indexes
  local set, known, order, gone, stay = {}, {}, {}, {}, 0
  for i = 1, many do
    local name, had, place = ahead[i], took[i], places[i]
    local left = counts[i] - had
    local mark, claim, all, flight, done, busy = unpacked(HEAD_FORM, packed[i])
    if left > 0 then
      set[stay + 1], set[stay + 2] = name, pack(PLAIN_SLOT, marks[i], place, indexes[i] + had, left)
      order[stay + 1], order[stay + 2] = score(place), name
      stay = stay + 2
    else
      gone[#gone + 1] = i
      all = all - 1
    end
    known[2 * i - 1], known[2 * i] = name, pack(HEAD_FILLED, mark, claim, all, flight + had, done, busy, HEAD_FILL)
  end
  leave_plain(gone, places)
  write_all('ZADD', lane.fair, order)
  write_all('HSET', K.t, known)
  lane.dirty = true
  save_lane(lane, set)
end

-- Returns the reply, or nothing where the fast path does not apply.
local function claim_plain(found)
  local meta = lane.meta
  if (lane.wanted or 1) ~= 1 and meta[6] == 0 and #ahead > 0 then
    lane.other = 1
    return claim_answer(nil, 0)
  end
  if planned or #ahead == 0 or meta[3] > now or (meta[4] > 0 and meta[4] <= now) or meta[6] == 1
    or meta[1] > FURTHEST then
    return
  end
  local packed = call('HMGET', K.t, unpack(ahead))
  local slots = plain_slots(found, packed)
  if not slots then return end
  local order, clock, many = serve(slots, meta[1])
  local entries, first = give_plain(slots, order, many), g[1] + 1
  g[1], g[5] = g[1] + #order, g[5] + #order
  meta[1] = clock
  count_waiting(lane, -#order)
  save_plain(slots, packed, many)
  if meta[7] == 1 then end_debts(lane) end
  save_counts()
  return claim_answer(meta[4] > 0 and meta[4] - now or nil, 0, first, entries)
end

function steps.claim()
  lane, session, most, lease = lane_of(ARGV[3]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  session_key, planned, leased = P .. 's:' .. session, ARGV[8] ~= '', false
  lane.wanted = tonumber(ARGV[7])
  begin_session()
  ahead = call('ZRANGE', lane.fair, 0, most - 1)
  local found = call('HMGET', lane.key, '', unpack(ahead))
  take_meta(lane, found[1])
  local answer = claim_plain(found)
  if answer then return answer end
  for i, name in ipairs(ahead) do take_slot(lane, name, found[i + 1]) end
  return general()
end
