-- Debits a start outside of a claim, or refunds an unused one.
--
-- ARGV: prefix, epoch, tenant, cost, the instant of the start or 0 to debit one now, then the
-- limits.
--
-- A caller outside of a claim has no instant to wait for, so it may start whenever the window has
-- quota: with spacing only one such caller could start at a time.
--
-- A refund in a long window is taken out of its run and of all later ones: then it was never used.
-- If that run is gone there is nothing to refund. Unused spacing between starts is lost.

local tenant_name, cost, start = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local limits = read_plan(6, start == 0)
load_tenants({ tenant_name })
local tenant = tenants[tenant_name]
if tenant[3] > 0 then limits[#limits + 1] = limit_of('T ' .. tenant_name, tenant[3], tenant[4], 'cost', start == 0) end
read_limits(limits)

local function debit_now()
  local at = since
  for _, limit in ipairs(limits) do at = max(at, room_at(limit, cost)) end
  if at > since then return { floor(at - since) + 1 } end
  for _, limit in ipairs(limits) do spend(limit, since, cost) end
  save_limits(limits)
  return { -1 }
end

-- Returns the place of the run that holds the start; nothing if it is gone.
local function place_of(runs)
  for i = #runs, 1, -1 do
    if unpacked(RUN_FORM, runs[i]) <= start - origin + 1 then return i end
  end
end

local function give_back_to(limit)
  local units, runs = units_of(limit, cost), call('LRANGE', limit.key, -RUNS, -1)
  for i = place_of(runs) or #runs + 1, #runs do
    local begun, ended, used = unpacked(RUN_FORM, runs[i])
    call('LSET', limit.key, i - #runs - 1, pack(RUN_FORM, begun, ended, used - units))
  end
end

if start == 0 then return debit_now() end
for _, limit in ipairs(limits) do
  if limit.found then give_back_to(limit) end
end
return { -1 }
