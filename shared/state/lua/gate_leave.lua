#!lua flags=allow-oom
-- gate_leave: a call is over: frees its slot, replaces what it reserved by what it cost, tells the breaker how it went.
-- keys: gate:breaker:<model>; gate:slots:<provider>; gate:spend:<day>; gate:spend:<day>:<principal>; gate:call:<call>
-- ARGV: 1 call, 2 process id, 3 body JSON (model, provider, principal, reserved, outcome, why, wait_ms, tokens, nano, breaker)
-- returns: how long the model rests now, in ms; -1 if what the call reserved is not there (any more)
-- outcome: ok, fault (the model's), dead (it cannot work again soon), none (says nothing about the model)
local call, who, d = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local at = now_ms()
local day, tokens, nano = math.floor(at / 86400000), 0, 0
if d.reserved then
  local c = redis.call('HMGET', P .. 'gate:call:' .. call, 'day', 'tokens', 'nano')
  if not c[1] then return -1 end
  redis.call('DEL', P .. 'gate:call:' .. call)
  redis.call('ZREM', P .. 'gate:slots:' .. d.provider, call .. ' ' .. who)
  day, tokens, nano = c[1], tonumber(c[2]), tonumber(c[3])
end

local function charge(key, unit, change)
  if change ~= 0 then
    local sum = tonumber(redis.call('HGET', key, unit) or '0') + change
    redis.call('HSET', key, unit, string.format('%.0f', math.max(0, sum)))
    redis.call('EXPIRE', key, 172800)
  end
end
charge(P .. 'gate:spend:' .. day, 'tokens', d.tokens - tokens)
charge(P .. 'gate:spend:' .. day, 'nano', d.nano - nano)
if d.principal ~= '' then
  charge(P .. 'gate:spend:' .. day .. ':' .. d.principal, 'tokens', d.tokens - tokens)
  charge(P .. 'gate:spend:' .. day .. ':' .. d.principal, 'nano', d.nano - nano)
end

local bkey = P .. 'gate:breaker:' .. d.model
local b = redis.call('HMGET', bkey, 'until', 'opens', 'probe', 'fails', 'since')
local rests, opens, probe = tonumber(b[1] or '0') - at, tonumber(b[2] or '0'), b[3] == call
if d.outcome == 'none' then
  if probe then redis.call('HSET', bkey, 'probe', '') end
  return math.max(0, rests)
end
if rests > 0 then return rests end -- it began before the model was sent to rest: nothing new
if d.outcome == 'ok' then
  redis.call('DEL', bkey)
  return 0
end

local fails, since = tonumber(b[4] or '0'), tonumber(b[5] or '0')
if at - since > d.breaker.within_ms then fails, since = 0, at end
fails = fails + 1
local rest = d.wait_ms
if probe or d.outcome == 'dead' or fails >= d.breaker.failures then
  rest = math.max(rest, math.min(d.breaker.cooldown_ms * 2 ^ math.min(opens, 20), d.breaker.most_ms))
  opens, fails = opens + 1, 0
end
redis.call('HSET', bkey, 'until', string.format('%.0f', at + rest), 'opens', opens, 'probe', '', 'why', d.why,
  'fails', fails, 'since', string.format('%.0f', since))
redis.call('EXPIRE', bkey, math.ceil((2 * d.breaker.most_ms + rest + d.breaker.within_ms) / 1000))
return rest
