-- Opens, closes, pauses and finishes actions.
--
-- ARGV: prefix, epoch, action, operation, then for `open` timeout, keep, note, for `notified` the
-- opening time, for `forget` places, and for `fail` `held` if tenants of it are paused.

local name, operation = ARGV[3], ARGV[4]
local action = action_of(name)

local function open()
  if action and is_reusable(action) then
    be_clean(name)
    action = nil
  end
  action = action or open_action(name)
  specify(action, ARGV[5], ARGV[6], ARGV[7])
end

-- Ends the action: from now on it has a lifetime. An action that ended early stays due until all of
-- its jobs have ended, so that another process ends them if one dies.
local function finish(stage)
  action.st, action.dirty = stage, true
  if action.ended == 0 then action.ended = now end
  if stage == FAILED or stage == CANCELLED then
    call('ZADD', K.adue, now, name)
  else
    call('ZREM', K.adue, name)
  end
  call('ZADD', K.aend, now + action.keep, name)
end

-- Jobs held by a pause are released in pieces. Until the last piece the name is stored with an
-- instant after which another process takes over.
local A_WHILE = 30000000
local function note_resuming()
  local key = P .. 'resuming'
  if action.paused == 0 and action.hd > 0 then call('ZADD', key, now + A_WHILE, name) else call('ZREM', key, name) end
end

local result = 1
if operation == 'open' then
  open()
elseif operation == 'forget' then
  if action and not is_over(action) then
    result = 0
  else
    for i = 5, #ARGV do call('SREM', P .. 'm:' .. name, ARGV[i]) end
  end
elseif operation == 'resumed' then
  call('ZREM', P .. 'resuming', name)
elseif not action then
  result = 0
elseif operation == 'close' then
  if not is_over(action) then action.closed, action.dirty = 1, true end
elseif operation == 'pause' or operation == 'resume' then
  action.paused, action.dirty = operation == 'pause' and 1 or 0, true
  note_resuming()
  must_notify = true
elseif operation == 'cancel' then
  if not is_over(action) and not is_settled(action) then finish(CANCELLED) end
elseif operation == 'fail' then
  -- The time of a pause does not count: an operator stopped the action, and not the API.
  local stopped = action.paused == 1 or action.hd > 0 or ARGV[5] == 'held'
  if action.st == 0 and stopped then action.progressed, action.dirty = now, true end
  if action.st == 0 and now < times_out(action) then
    call('ZADD', K.adue, times_out(action), name)
  elseif action.st == COMPLETED or (action.st == 0 and is_settled(action)) then
    call('ZREM', K.adue, name)
  elseif action.st == 0 then
    finish(FAILED)
  end
elseif operation == 'cleaned' then
  if is_over(action) then call('ZREM', K.adue, name) end
elseif operation == 'notified' and ARGV[5] and tonumber(ARGV[5]) ~= action.opened then
  -- That was an earlier action of the name, and another process has notified its end.
  result = 1
elseif operation == 'notified' then
  if is_settled(action) then
    if action.st == 0 then
      finish(COMPLETED)
      call('DEL', P .. 'm:' .. name)
    end
    action.told, action.dirty = 1, true
    call('ZREM', K.ripe, name)
  else
    result = 2
  end
end
save_actions()
save_all()
return result
