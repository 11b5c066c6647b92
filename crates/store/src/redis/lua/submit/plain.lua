-- Takes a batch: the short way, for plain jobs of tenants that have a seat already.
--
-- ARGV: prefix, epoch, most that may wait, action, 1 if it is closed with this, its timeout and its keep,
-- jobs in all, 1 if names or start times have to be looked at, then groups of one lane, tenant and class in
-- one text: names of lane and tenant, class, mark, size; the places of all jobs in the batch; their start
-- times, if any has one; the action's note; then the records, group by group.
--
-- Such a batch changes nothing but the lists and the numbers of jobs in them: who has a seat keeps its
-- place. Everything else goes the long way, before anything is written.

-- The long way.
local any
local GROUP_FORM = '>Bc0Bc0BBI4'
-- Marks of a group: a job has an action or a deadline; costs differ from 1.
local COSTS_DIFFER = 2

local queue_max, action_name, last, total, careful, groups, pushed

local function read_groups()
  local text, at, first = ARGV[10], 1, 14
  groups = {}
  while at <= #text do
    local lane, tenant, class, mark, size, after = unpacked(GROUP_FORM, text, at)
    groups[#groups + 1] = { lane = lane, tenant = tenant, class = class, mark = mark, size = size, first = first }
    at, first = after, first + size
  end
end

-- If one fails, those before it are undone and nothing has happened.
local function push(key, list, first, last_one)
  for from = first, last_one, CHUNK do
    local to = min(from + CHUNK - 1, last_one)
    local answer = redis.pcall('RPUSH', key, unpack(list, from, to))
    if type(answer) == 'table' then
      for i = #pushed, 1, -2 do redis.call('RPOP', pushed[i - 1], pushed[i]) end
      error('BADKEY ' .. key .. ' ' .. answer.err, 0)
    end
    pushed[#pushed + 1] = key
    pushed[#pushed + 1] = to - from + 1
  end
end

-- The lane with its seats as they will be, and how many waited before each group; or nothing.
local function plain_seats()
  local lane, ask = lane_of(groups[1].lane), { '' }
  for i = 1, #groups do
    local group = groups[i]
    if group.lane ~= lane.name or group.mark > 0 then return end
    ask[i + 1] = group.tenant
  end
  local found = read_all(lane.key, ask)
  if not found[1] then return end
  local set, befores = {}, {}
  for i = 1, #groups do
    local group, packed = groups[i], found[i + 1]
    if not packed or #packed ~= PLAIN_SIZE then return end
    local mark, place, index, jobs = unpacked(PLAIN_SEAT, packed)
    if mark % 4 ~= group.class or mark > 7 then return end
    set[2 * i - 1], set[2 * i] = group.tenant, pack(PLAIN_SEAT, mark, place, index, jobs + group.size)
    befores[i] = jobs
  end
  take_meta(lane, found[1])
  return lane, set, befores
end

local function submit_plain()
  if careful or action_name ~= '' or total == 0 then return end
  local lane, set, befores = plain_seats()
  if not lane then return end
  local begins = { lists_of(lane, 1), lists_of(lane, 2), lists_of(lane, 3) }
  for i = 1, #groups do
    local group = groups[i]
    push(begins[group.class] .. group.tenant, ARGV, group.first, group.first + group.size - 1)
  end
  count_waiting(lane, total)
  save_lane(lane, set)
  save_counts()
  return { g[2], g[15], 0, befores }
end

function steps.submit()
  queue_max, action_name, last, total = tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1', tonumber(ARGV[8])
  careful, pushed = ARGV[9] == '1' or g[2] + total > queue_max, {}
  read_groups()
  return submit_plain() or any()
end
