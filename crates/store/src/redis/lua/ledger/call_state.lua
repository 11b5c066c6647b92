-- Accounts of limits on a server: the law of the core's `Account`, command by command.
--
-- Spans and times are nanoseconds in doubles, which are exact for 104 days since the ledger's creation and
-- off by a nanosecond or two after. Numbers are packed, because each field would be a command of its own.

local unpack, floor, ceil, max, min, huge = unpack, math.floor, math.ceil, math.max, math.min, math.huge
local sub, rep, pack, unpacked = string.sub, string.rep, struct.pack, struct.unpack

-- State of one call: arguments, key of the account, time of the server in microseconds, time of the account.
local ARGV, account_key, server_now, latest

-- Numbers of an account: [1] latest time, [2] time by which it is ahead of the server's clock, [3] place from
-- which new holders start, [4] joins, [5] time before which arrivals are unknown, [6] held calls, [7] held
-- cost, [8] time before which no holder is gone, [9] rings so far, [10] generation of the facts, [11] time of
-- their last update, [12] end of their lifetime, [13] time until which nothing is granted, [14] last
-- replacement of the server that it knows, [15] active holders, [16] time at which the server forgets its keys,
-- [17] last loss of data that it knows, [18] first opening that it knows.
local head
local LATEST, SHIFT, FAIR_CLOCK, JOINS, UNKNOWN_BEFORE, HELD_CALLS, HELD_COST, NONE_GONE = 1, 2, 3, 4, 5, 6, 7, 8
local RINGS, GENERATION, WRITTEN, FACTS_END, CLOSED_UNTIL, MOVED, ACTIVE, FORGOTTEN = 9, 10, 11, 12, 13, 14, 15, 16
local LOST, OPENED, HEAD_NUMBERS = 17, 18, 18

-- Forms of so many numbers: doubles in keys, and whole numbers in calls and replies.
local SIZE, stored_forms, sent_forms = 8, {}, {}

local function form_of(forms, letter, many)
  local form = forms[many]
  if not form then
    form = '>' .. rep(letter, many)
    forms[many] = form
  end
  return form
end

local function read_form(form, many, text, from)
  local numbers = { unpacked(form, text, from or 1) }
  numbers[many + 1] = nil
  return numbers
end

local function pack_numbers(numbers) return pack(form_of(stored_forms, 'd', #numbers), unpack(numbers)) end

-- Returns stored numbers, from this byte on.
local function read_numbers(text, many, from) return read_form(form_of(stored_forms, 'd', many), many, text, from) end

local function pack_sent(numbers) return pack(form_of(sent_forms, 'I8', #numbers), unpack(numbers)) end

-- Returns sent numbers, from this byte on.
local function read_sent(text, many, from) return read_form(form_of(sent_forms, 'I8', many), many, text, from) end
