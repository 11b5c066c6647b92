-- Returns the claims of a session that it does not know: it never received them, so no worker
-- started them.
--
-- ARGV: prefix, epoch, session, the numbers of the known claims in one text, limit. Returns the
-- number, and 1 if there is more.
--
-- The claims move to an unused session name whose lease has expired: the reaper takes them from
-- there, and knows by the name that they did not start.

local key, known, most = P .. 's:' .. ARGV[3], ARGV[4], tonumber(ARGV[5])
local is_known = {}
for at = 1, #known, CLAIM_SIZE do is_known[sub(known, at, at + CLAIM_SIZE - 1)] = true end

-- About the number of a process's claims in flight.
local unheard, more = {}, 0
for _, field in ipairs(call('HKEYS', key)) do
  if not is_known[field] then
    if #unheard == most then
      more = 1
      break
    end
    unheard[#unheard + 1] = field
  end
end
if #unheard == 0 then return { 0, 0 } end

local entries, set = read_all(key, unheard), {}
for i, field in ipairs(unheard) do set[2 * i - 1], set[2 * i] = field, entries[i] end
local aside = ARGV[3] .. NOT_BEGUN
write_all('HSET', P .. 's:' .. aside, set)
write_all('HDEL', key, unheard)
call('ZADD', K.sessions, 0, aside)
return { #unheard, more }
