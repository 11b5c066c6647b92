-- Samples the congestion of tenants, or resets a tenant's statistics.
--
-- ARGV: prefix, epoch, `begin`, interval; or `record`, keep, then tenant and numbers of each sample; or `reset`,
-- tenant.

if ARGV[3] == 'reset' then
  local name = ARGV[4]
  if call('HEXISTS', K.t, name) == 0 then return 1 end
  local tenant = tenant_of(name)
  if tenant[12] > 0 then return 0 end
  for i = 7, 10 do tenant[i] = 0 end
  for i = 14, 18 do tenant[i] = 0 end
  call('UNLINK', P .. 'k:' .. name)
  save_all()
  return 1
end

-- One machine takes the samples of an interval.
if ARGV[3] == 'begin' then
  local interval = string.format('%.0f', floor(now / tonumber(ARGV[4])))
  if call('HGET', K.epoch, 'sampled') == interval then return 0 end
  call('HSET', K.epoch, 'sampled', interval)
  return 1
end

local keep, names = tonumber(ARGV[4]), {}
for i = 5, #ARGV, 2 do names[#names + 1] = ARGV[i] end
load_tenants(names)
for i, name in ipairs(names) do
  if not tenants[name].idle then
    local key = P .. 'k:' .. name
    call('RPUSH', key, pack('>I7', now) .. ARGV[4 + 2 * i])
    -- A few at a time: old samples go as fast as new ones come.
    for _ = 1, 4 do
      local first = call('LINDEX', key, 0)
      if not first or unpacked('>I7', first) >= now - keep then break end
      call('LPOP', key)
    end
    call('PEXPIRE', key, floor(keep / 1000) + 1)
  end
end
return 1
