-- How seats, lanes and tenants are written.
--
-- Most seats have plain jobs of one class and nothing that came back, and most tenants have no bound, so
-- both have a form in which just what changes is read and written: a script spends most of its time on
-- taking numbers out of texts and putting them back.

-- A seat: [1] place, [2] 0 in the order, 1 parked, 2 out; by class low, normal, high: [3..5] index of the
-- first job of its list, [6..8] jobs in it, [9..11] jobs that came back, [12..14] place among classes;
-- [15] 1 if a job has an action, a deadline or a cost.
local SEAT_FORM = '>ddddddddddddddd'
-- A plain seat: state and class, place, index, jobs. Of the other classes nothing needs to be known: a list
-- that begins anew begins at an index above all before, and classes that meet begin level.
local PLAIN_SEAT, PLAIN_SIZE = '>Bddd', 25
-- A lane: [1] clock, [2] waiting, [3] parked until, [4] when the next tenant or job returns, [5] unused,
-- [6] 1 if costs differ, [7] 1 if tenants without work owe. It is filled up to more than 64 bytes, so that
-- the server does not keep the seats as a list in which it has to search; with one text, since sixteen single
-- bytes take as long as the numbers.
local LANE_FORM, LANE_FILLED, LANE_FILL = '>ddddddd', '>dddddddc16', string.rep('\0', 16)
-- A tenant: [1] claim, [2] most in flight, [3] units and [4] window of its rate, [5] paused, [6] in flight,
-- [7] done, [8] dead, [9] failed, [10] cancelled, [11] delayed, [12] put off, [13] held, [14] throttles,
-- [15] busy, [16] last backoff, [17] speed, [18] last update, [19] claims up to this number were
-- cancelled, or while that is under way `ALL_CLAIMS` and the instant at which it is taken for given up,
-- [20] seats.
-- What changes with every job is its head: a mark, claim, seats, in flight, done, busy; filled up like a
-- lane. The rest is written only if any of it is not 0. Of a tenant without a rule of its own [1] to [4] are
-- those of all others, and written as 0: so one number changes for all of them at once.
local HEAD_FORM, HEAD_FILLED, HEAD_FILL = '>Bddddd', '>Bdddddc24', string.rep('\0', 24)
local REST_FORM = '>ddddddddddddddd'
local REST = { 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19 }
-- Marks: it is bounded by a rule of its own, stopped, or has claims that were cancelled; jobs of it wait elsewhere than in a line;
-- it has a rest.
local BOUNDED, ELSEWHERE, HAS_REST = 1, 2, 4
-- More than any number of a claim, and with an instant added still a whole number.
local ALL_CLAIMS = 2 ^ 52

local function ready(seat) return seat[6] + seat[7] + seat[8] + seat[9] + seat[10] + seat[11] end

local function read_seat(packed)
  if #packed ~= PLAIN_SIZE then return { unpacked(SEAT_FORM, packed) } end
  local mark, place, index, jobs = unpacked(PLAIN_SEAT, packed)
  local class, at = mark % 4, g[1]
  local seat = { place, floor(mark / 4), at, at, at, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  seat[2 + class], seat[5 + class] = index, jobs
  return seat
end

local function write_seat(seat)
  if seat[15] == 0 and seat[9] + seat[10] + seat[11] == 0 then
    local all = seat[6] + seat[7] + seat[8]
    for class = 1, 3 do
      if seat[5 + class] == all then
        return pack(PLAIN_SEAT, 4 * seat[2] + class, seat[1], seat[2 + class], all)
      end
    end
  end
  return pack(SEAT_FORM, unpack(seat, 1, 15))
end

-- Gives a tenant what its rule says, or all others have.
local function entitle(t, claim, cap, units, window)
  t.usual = claim == 0
  if t.usual then claim, cap, units, window = usual[1], usual[2], usual[3], usual[4] end
  t[1], t[2], t[3], t[4] = claim, cap, units, window
end

local function read_tenant(head, rest)
  local _, claim, seats, flight, done, busy = unpacked(HEAD_FORM, head)
  local t = { claim, 0, 0, 0, 0, flight, done, 0, 0, 0, 0, 0, 0, 0, busy, 0, 0, 0, 0, seats }
  if rest then
    local values = { unpacked(REST_FORM, rest) }
    for i = 1, #REST do t[REST[i]] = values[i] end
    t.rest = rest
  end
  entitle(t, claim, t[2], t[3], t[4])
  return t
end

-- Its head, and its rest if it has one.
local function write_tenant(t)
  local mark, rest = 0, nil
  -- Claims that were cancelled are over once nothing is under way.
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
