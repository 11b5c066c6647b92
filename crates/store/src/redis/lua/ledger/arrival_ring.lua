-- Arrivals in a sliding window, in buckets of one 256th of it, each eight bytes of a string.
--
-- Bucket `n` lies at place `n % 257`. Places behind the newest bucket hold units of the turn before, which
-- were subtracted already: they are overwritten when a bucket of this turn is first used.

local SLICES, BUCKETS = 256, 257
local ZERO = pack('>d', 0)

local function ring_key(limit) return account_key .. ':' .. limit.ring end

-- Calls `visit` with the first byte and the number of buckets of each part of a range that lies in one piece.
local function each_part(from, to, visit)
  while from <= to do
    local place = from % BUCKETS
    local many = min(to - from + 1, BUCKETS - place)
    visit(place * SIZE, many, from)
    from = from + many
  end
end

local function read_buckets(limit, from, to)
  local units = {}
  each_part(from, to, function(byte, many)
    local text = redis.call('GETRANGE', ring_key(limit), byte, byte + many * SIZE - 1)
    local stored = floor(#text / SIZE)
    for _, number in ipairs(read_numbers(text, stored)) do units[#units + 1] = number end
    for _ = stored + 1, many do units[#units + 1] = 0 end
  end)
  return units
end

local function ring_advance(limit)
  local first = floor(max(0, latest - limit.window) / limit.width)
  if first <= limit.first then return end
  if limit.newest < first then
    limit.total = 0
  elseif limit.total > 0 then
    for _, units in ipairs(read_buckets(limit, limit.first, first - 1)) do limit.total = limit.total - units end
  end
  limit.first = first
end

local function ring_count(limit, at, units)
  local number = floor(at / limit.width)
  if number < limit.first then return end
  if number <= limit.newest then
    local before = read_buckets(limit, number, number)[1]
    redis.call('SETRANGE', ring_key(limit), number % BUCKETS * SIZE, pack('>d', before + units))
  else
    -- The first bucket creates the ring's key, which must be forgotten with the account.
    if limit.newest < 0 then head[FORGOTTEN] = 0 end
    -- Buckets in between hold units of the turn before.
    each_part(max(limit.newest + 1, limit.first), number, function(byte, many, from)
      local is_last = from + many > number
      local text = rep(ZERO, is_last and many - 1 or many) .. (is_last and pack('>d', units) or '')
      redis.call('SETRANGE', ring_key(limit), byte, text)
    end)
    limit.newest = number
  end
  limit.total = limit.total + units
end

-- Calls `visit` with the end and the units of each bucket that counts, oldest first, until it returns true.
local function each_bucket(limit, visit)
  for from = limit.first, limit.newest, 64 do
    for i, units in ipairs(read_buckets(limit, from, min(from + 63, limit.newest))) do
      if units > 0 and visit((from + i) * limit.width, units) then return end
    end
  end
end

-- Returns the time at which so many units of those that count now are gone, or nothing if there are fewer.
local function ring_time_of(limit, units)
  local found
  each_bucket(limit, function(bucket_end, counted)
    units = units - counted
    if units <= 0 then found = bucket_end + limit.window end
    return found
  end)
  return found
end
