-- Counts of starts, for the limits that only the store knows: a tenant's rate, and that of all.
--
-- A unit counts from its grant until one window after the latest possible arrival of its call. It is
-- held first, and counts then in the bucket of its arrival, a 256th of the window. So no window at the
-- API exceeds the limit, however late a worker sends. Workers report ages, so clocks may differ.
--
-- A count is stored as one text: window, units held, its latest time, and the time of the next spaced
-- start; then its buckets, oldest first, each with its number and units. A bucket counts until one
-- window after its end: never too short, and at most one 256th too long.

do
local SLICES, COUNT_FORM, COUNT_SIZE, PIECE_OF_RING = 256, '>dddd', 32, 100
-- Starts of a window are spread over it, or over its first second, and make up for a short stall.
local SPREAD, CATCH_UP = 1000000, 250000
-- A replaced server knows all but the last moments: that is no reason to wait for an hour.
local MAX_DOUBT = 60000000
-- Held units may come back at any moment, so nothing better is known than to look again.
local POLLS, SHORTEST_POLL, LONGEST_POLL = 50, 1000, 20000
-- Name of the count of all tenants: no tenant has it.
starts.OF_ALL = ''

local ring_forms = {}

local function ring_form(many)
  ring_forms[many] = ring_forms[many] or '>' .. string.rep('d', many)
  return ring_forms[many]
end

local function width_of(window) return math.ceil(window / SLICES) end

-- Counts units that arrived at an instant.
function starts.count_at(count, at, units)
  local ring, number, place = count.ring, floor(max(0, at) / count.width), #count.ring - 1
  while place > 0 and ring[place] > number do place = place - 2 end
  if place > 0 and ring[place] == number then
    ring[place + 1] = ring[place + 1] + units
  else
    table.insert(ring, place + 2, number)
    table.insert(ring, place + 3, units)
  end
  count.total, count.dirty = count.total + units, true
end

-- Takes over the buckets that still count, each at its latest possible moment.
local function read_ring(count, text, window)
  local all = {}
  for at = COUNT_SIZE + 1, #text, 8 * PIECE_OF_RING do
    local some = { unpacked(ring_form(min(PIECE_OF_RING, (#text - at + 1) / 8)), text, at) }
    -- The last value is the place behind them.
    for i = 1, #some - 1 do all[#all + 1] = some[i] end
  end
  local first, width = floor((count.time - count.window) / count.width), width_of(window)
  for i = 1, #all, 2 do
    if window ~= count.window then
      starts.count_at(count, min((all[i] + 1) * width - 1, count.time), all[i + 1])
    elseif all[i] >= first then
      count.ring[#count.ring + 1], count.ring[#count.ring + 2] = all[i], all[i + 1]
      count.total = count.total + all[i + 1]
    end
  end
end

-- Returns the instant until which a limit stays closed, because its earlier usage is unknown.
local function closed_until(window)
  local until_then = doubt > 0 and doubt + window or 0
  return moved > 0 and max(until_then, moved + min(window, MAX_DOUBT)) or until_then
end

function starts.open(name, units, window)
  local count = starts.opened[name]
  if count then return count end
  count = {
    key = P .. 'c:' .. name, units = units, window = window, width = width_of(window), ring = {}, total = 0, held = 0,
    time = now, next = 0,
  }
  starts.opened[name] = count
  local text = call('GET', count.key)
  if text then
    local before, held, latest, next = unpacked(COUNT_FORM, text)
    count.held, count.next = held, next
    if latest > now + window then
      -- The server's clock was set back: what counts is unknown.
      starts.count_at(count, now, units)
      count.next = 0
    else
      count.time = max(now, latest)
      read_ring(count, text, before)
    end
  end
  return count
end

-- Returns the instant at which a job of this cost may start, behind pending units. A cost above the limit counts as all of
-- it: its worker knows that the job can never start.
function starts.free_at(count, cost, pending)
  local over = count.total + count.held + (pending or 0) + min(cost, count.units) - count.units
  local at = max(closed_until(count.window), count.next)
  if over <= 0 or cost == 0 then return at end
  local ring = count.ring
  for i = 1, #ring, 2 do
    over = over - ring[i + 1]
    if over <= 0 then return max(at, (ring[i] + 1) * count.width + count.window) end
  end
  return max(at, count.time + max(SHORTEST_POLL, min(count.window / POLLS, LONGEST_POLL)))
end

function starts.hold(count, cost)
  count.held, count.dirty = count.held + cost, true
end

-- Spaces the next start.
function starts.space(count, cost)
  local step = min(count.window, SPREAD) / count.units
  count.next = max(count.next, count.time - CATCH_UP) + step * cost
end

-- Ends the hold of a call: it arrived this long ago, or was never sent.
function starts.let_go(count, cost, age)
  count.held, count.dirty = max(0, count.held - cost), true
  if age then starts.count_at(count, count.time - age, cost) end
end

-- Returns the count of a tenant's limit, if it has one. Without claims nothing is held.
function starts.of_tenant(name, tenant)
  if tenant[3] == 0 then return end
  local count = starts.open(name, tenant[3], tenant[4])
  if tenant[6] == 0 then count.held = 0 end
  return count
end

-- Ends the hold of a claimed entry. A limit that is gone counts no more.
function starts.end_hold(entry, tenant, cost, age)
  local count = starts.of_tenant(entry.tenant, tenant)
  if count then
    starts.let_go(count, cost, age)
  else
    call('UNLINK', P .. 'c:' .. entry.tenant)
  end
  entry.holds = nil
end

function starts.save()
  for _, count in pairs(starts.opened) do
    if count.dirty then
      local parts, ring = { pack(COUNT_FORM, count.window, count.held, count.time, count.next) }, count.ring
      for at = 1, #ring, PIECE_OF_RING do
        local last = min(at + PIECE_OF_RING - 1, #ring)
        parts[#parts + 1] = pack(ring_form(last - at + 1), unpack(ring, at, last))
      end
      local text = table.concat(parts)
      if count.held > 0 then
        call('SET', count.key, text)
      else
        call('SET', count.key, text, 'PX', floor(count.window / 1000) + 1000)
      end
      count.dirty = nil
    end
  end
end
end
