-- Renews a session's lease. ARGV: prefix, epoch, session, lease.

local expiry = call('ZSCORE', K.sessions, ARGV[3])
if not expiry or tonumber(expiry) <= now then return 0 end
call('ZADD', K.sessions, 'XX', now + tonumber(ARGV[4]), ARGV[3])
return 1
