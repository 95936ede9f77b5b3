#!lua flags=allow-oom
-- gate_leave: a call is over: frees its slot, replaces what it reserved by what it cost, tells the breaker how it went.
-- keys: gate:breaker:<model>; gate:slots:<provider>; gate:spend:<day>; gate:spend:<day>:<principal>; gate:call:<call>
-- ARGV: 1 call, 2 process id, 3 body JSON (outcome: ok, fault, dead or none; why, wait_ms, tokens, nano, breaker)
-- returns: how long the model rests now, in ms; -1 if the call is not known (any more)
local call, who, d = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local at = now_ms()
local ckey = P .. 'gate:call:' .. call
local c = redis.call('HMGET', ckey, 'model', 'provider', 'principal', 'day', 'tokens', 'nano')
if not c[1] then return -1 end
redis.call('DEL', ckey)
redis.call('ZREM', P .. 'gate:slots:' .. c[2], call .. ' ' .. who)

local function settle(key)
  for i, unit in ipairs({ 'tokens', 'nano' }) do
    local sum = tonumber(redis.call('HGET', key, unit) or '0') - tonumber(c[4 + i]) + d[unit]
    redis.call('HSET', key, unit, string.format('%.0f', math.max(0, sum)))
  end
  redis.call('EXPIRE', key, 172800)
end
settle(P .. 'gate:spend:' .. c[4])
if c[3] ~= '' then settle(P .. 'gate:spend:' .. c[4] .. ':' .. c[3]) end

local bkey = P .. 'gate:breaker:' .. c[1]
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
