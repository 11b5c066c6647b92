-- Counts the start of a claimed job whose worker acquired no permit before the claim.
--
-- ARGV: prefix, epoch, session, claim, rate of all tenants per second or 0.
--
-- Returns the time until there is room, or -1 if the start counts. From then on the claim holds its
-- units, as one that was handed out with them.

local session_key, field = P .. 's:' .. ARGV[3], ARGV[4]
local expiry, packed = call('ZSCORE', K.sessions, ARGV[3]), call('HGET', session_key, field)
local entry, job
if packed then entry, job = sound_entry(packed) end
-- A later settlement is fenced.
local GONE = 1000000
if not entry or not expiry or tonumber(expiry) <= now then return { GONE } end

load_tenants({ entry.tenant })
local tenant, global, start = tenants[entry.tenant], tonumber(ARGV[5]), now
local own = not entry.holds and starts.of_tenant(entry.tenant, tenant)
local all = global > 0 and starts.open(starts.OF_ALL, global, 1000000)
-- Such a start is not spaced: it cannot wait for an instant.
if own then
  own.next = 0
  start = max(start, starts.free_at(own, job.cost))
end
if all then start = max(start, starts.free_at(all, job.cost)) end
if start > now then return { floor(start - now) + 1 } end
if all then starts.count_at(all, now, min(job.cost, global)) end
if own then
  starts.hold(own, job.cost)
  call('HSET', session_key, field, string.char(byte(packed) + HOLDS) .. sub(packed, 2))
end
starts.save()
return { -1 }
