-- Formats of slots, lanes and tenants.
--
-- Most slots have plain jobs of one class and no returned jobs, and most tenants have no bound. So
-- both have a short form of only the changing fields: a script spends most of its time on packing
-- and unpacking numbers.

-- Slot: [1] place, [2] 0 in the order, 1 parked, 2 out; by class low, normal, high: [3..5] index of
-- the first job of its list, [6..8] jobs in it, [9..11] returned jobs, [12..14] place among
-- classes; [15] 1 if a job has an action, a deadline or a cost.
local SLOT_FORM = '>ddddddddddddddd'
-- Plain slot: state and class, place, index, jobs. The other classes need no fields: a new list
-- begins at an index above all before, and classes that meet begin level.
local PLAIN_SLOT, PLAIN_SIZE = '>Bddd', 25
-- Lane: [1] clock, [2] waiting, [3] parked until, [4] when the next tenant or job returns, [5]
-- unused, [6] 1 if costs differ, [7] 1 if tenants without work owe. It is padded to more than 64
-- bytes, so that the server does not keep the slots as a list that it must search. The padding is
-- one text, since sixteen single bytes take as long as the numbers.
local LANE_FORM, LANE_FILLED, LANE_FILL = '>ddddddd', '>dddddddc16', string.rep('\0', 16)
-- Tenant: [1] share, [2] max in flight, [3] units and [4] window of its rate, [5] paused, [6] in
-- flight, [7] done, [8] dead, [9] failed, [10] cancelled, [11] delayed, [12] deferred, [13] held,
-- [14] throttles, [15] busy, [16] last backoff, [17] speed, [18] last update, [19] claims up to
-- this number were cancelled, or during a cancellation `ALL_CLAIMS` and the instant at which it
-- counts as abandoned, [20] slots.
--
-- The head changes with every job: a mark, share, slots, in flight, done, busy; padded like a lane.
-- The rest is written only if any of it is not 0. For a tenant without its own rule [1] to [4] are
-- the default rule, and written as 0: so one number changes for all of them at once.
local HEAD_FORM, HEAD_FILLED, HEAD_FILL = '>Bddddd', '>Bdddddc24', string.rep('\0', 24)
local REST_FORM = '>ddddddddddddddd'
local REST = { 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19 }
-- Marks: the tenant has its own bound, a pause, or cancelled claims; jobs of it wait outside of a
-- list; it has a rest.
local BOUNDED, ELSEWHERE, HAS_REST = 1, 2, 4
-- More than any claim number, and with an instant added still exact.
local ALL_CLAIMS = 2 ^ 52

local function ready(slot) return slot[6] + slot[7] + slot[8] + slot[9] + slot[10] + slot[11] end

local function read_slot(packed)
  if #packed ~= PLAIN_SIZE then return { unpacked(SLOT_FORM, packed) } end
  local mark, place, index, jobs = unpacked(PLAIN_SLOT, packed)
  local class, at = mark % 4, g[1]
  local slot = { place, floor(mark / 4), at, at, at, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  slot[2 + class], slot[5 + class] = index, jobs
  return slot
end

local function write_slot(slot)
  if slot[15] == 0 and slot[9] + slot[10] + slot[11] == 0 then
    local all = slot[6] + slot[7] + slot[8]
    for class = 1, 3 do
      if slot[5 + class] == all then
        return pack(PLAIN_SLOT, 4 * slot[2] + class, slot[1], slot[2 + class], all)
      end
    end
  end
  return pack(SLOT_FORM, unpack(slot, 1, 15))
end

-- Applies a tenant's own rule, or the default one.
local function entitle(t, claim, cap, units, window)
  t.usual = claim == 0
  if t.usual then claim, cap, units, window = usual[1], usual[2], usual[3], usual[4] end
  t[1], t[2], t[3], t[4] = claim, cap, units, window
end

local function read_tenant(head, rest)
  local _, claim, slots, flight, done, busy = unpacked(HEAD_FORM, head)
  local t = { claim, 0, 0, 0, 0, flight, done, 0, 0, 0, 0, 0, 0, 0, busy, 0, 0, 0, 0, slots }
  if rest then
    local values = { unpacked(REST_FORM, rest) }
    for i = 1, #REST do t[REST[i]] = values[i] end
    t.rest = rest
  end
  entitle(t, claim, t[2], t[3], t[4])
  return t
end

-- Packs the head, and the rest if there is one.
local function write_tenant(t)
  local mark, rest = 0, nil
  -- Cancelled claims are over once nothing is in flight.
  if t[6] == 0 and t[19] < ALL_CLAIMS then t[19] = 0 end
  local claim, cap, units, window = 0, 0, 0, 0
  if not t.usual then claim, cap, units, window = t[1], t[2], t[3], t[4] end
  if cap + units + window > 0 then mark = HAS_REST end
  for i = 4, #REST do
    if t[REST[i]] ~= 0 then mark = HAS_REST end
  end
  if mark > 0 then
    rest = pack(REST_FORM, cap, units, window, t[5], t[8], t[9], t[10], t[11], t[12], t[13], t[14], t[16], t[17], t[18],
      t[19])
    if cap > 0 or t[5] > 0 or t[19] > 0 then mark = mark + BOUNDED end
    if t[11] + t[12] + t[13] > 0 then mark = mark + ELSEWHERE end
  end
  return pack(HEAD_FILLED, mark, claim, t[20], t[6], t[7], t[15], HEAD_FILL), rest
end

local function has_rest(head) return head and byte(head) >= HAS_REST end
