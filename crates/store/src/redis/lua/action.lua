-- Opens, closes, stops and tells actions.
--
-- ARGV: prefix, epoch, action, what, then for `open` timeout, keep, note, for `told` when it was opened, and for
-- `forget` places.

local name, what = ARGV[3], ARGV[4]
local action = action_of(name)

local function open()
  if action and is_over(action) then
    be_clean(name)
    action = nil
  end
  action = action or open_action(name)
  specify(action, ARGV[5], ARGV[6], ARGV[7])
end

-- It is over: from now on it has a lifetime. One that ended early is out of time until all of its jobs have
-- ended, so that somebody ends them whoever dies over it.
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

-- What a pause held is let go in pieces. Until the last one the name is noted, with when whoever does it is taken
-- for dead and another goes on.
local A_WHILE = 30000000
local function note_resuming()
  local key = P .. 'resuming'
  if action.paused == 0 and action.hd > 0 then call('ZADD', key, now + A_WHILE, name) else call('ZREM', key, name) end
end

local result = 1
if what == 'open' then
  open()
elseif what == 'forget' then
  if action and not is_over(action) then
    result = 0
  else
    for i = 5, #ARGV do call('SREM', P .. 'm:' .. name, ARGV[i]) end
  end
elseif what == 'resumed' then
  call('ZREM', P .. 'resuming', name)
elseif not action then
  result = 0
elseif what == 'close' then
  if not is_over(action) then action.closed, action.dirty = 1, true end
elseif what == 'pause' or what == 'resume' then
  action.paused, action.dirty = what == 'pause' and 1 or 0, true
  note_resuming()
  ring = true
elseif what == 'cancel' then
  if not is_over(action) and not is_settled(action) then finish(CANCELLED) end
elseif what == 'fail' then
  if action.st == 0 and now >= action.opened + action.timeout then
    if is_settled(action) then
      call('ZREM', K.adue, name)
    else
      finish(FAILED)
    end
  end
elseif what == 'cleaned' then
  if is_over(action) then call('ZREM', K.adue, name) end
elseif what == 'told' and ARGV[5] and tonumber(ARGV[5]) ~= action.opened then
  -- That was its last life, and somebody else has told it.
  result = 1
elseif what == 'told' then
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
