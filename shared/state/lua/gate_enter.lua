-- gate_enter: asks to call a model: its breaker, its provider's slots, the budgets of the day. Takes what the call needs.
-- keys: gate:breaker:<model>; gate:slots:<provider>; gate:spend:<day>; gate:spend:<day>:<principal>; gate:call:<call>
--   ; coordinator:<cid>; worker:<wid>
-- ARGV: 1 call, 2 process id, 3 body JSON (model, provider, slots, principal, tokens, nano, hold_ms, bounds)
-- returns: {'go', 1 if something was reserved}, {'open', ms, why}, {'busy', ms} or {'spent', ms, bound}; ms is when to ask
--   again. Where nothing is bounded it only reads: a write would wait for the disk.
local call, who, d = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local at = now_ms()
local ckey = P .. 'gate:call:' .. call
if redis.call('EXISTS', ckey) == 1 then return { 'go', 1 } end

-- What a dead process held is free: it counts only while its heartbeat lives.
local function alive(id)
  return redis.call('EXISTS', P .. 'coordinator:' .. id) == 1 or redis.call('EXISTS', P .. 'worker:' .. id) == 1
end

local bkey = P .. 'gate:breaker:' .. d.model
local b = redis.call('HMGET', bkey, 'until', 'opens', 'probe', 'probe_by', 'probe_until', 'why')
local rests = tonumber(b[1] or '0') - at
if rests > 0 then return { 'open', rests, b[6] or '' } end
local half_open = tonumber(b[2] or '0') > 0
if half_open and b[3] and b[3] ~= '' and tonumber(b[5]) > at and alive(b[4]) then
  return { 'open', 1000, b[6] or '' }
end

local skey = P .. 'gate:slots:' .. d.provider
if d.slots > 0 then
  redis.call('ZREMRANGEBYSCORE', skey, '-inf', at)
  local used = 0
  for _, member in ipairs(redis.call('ZRANGE', skey, 0, -1)) do
    if alive(string.match(member, ' (.*)$')) then
      used = used + 1
    else
      redis.call('ZREM', skey, member)
    end
  end
  if used >= d.slots then return { 'busy', 250 } end
end

local day = math.floor(at / 86400000)
local spends = { { 'day', P .. 'gate:spend:' .. day } }
if d.principal ~= '' then
  spends[2] = { 'user_day', P .. 'gate:spend:' .. day .. ':' .. d.principal }
end
local reserves = d.slots > 0
for _, unit in ipairs({ 'tokens', 'nano' }) do
  for _, s in ipairs(spends) do
    local bound = d.bounds[s[1] .. '_' .. unit]
    reserves = reserves or bound > 0
    if bound > 0 and tonumber(redis.call('HGET', s[2], unit) or '0') + d[unit] > bound then
      return { 'spent', (day + 1) * 86400000 - at, s[1] .. '_' .. unit }
    end
  end
end

if half_open then
  redis.call('HSET', bkey, 'probe', call, 'probe_by', who, 'probe_until', string.format('%.0f', at + d.hold_ms))
end
if not reserves then return { 'go', 0 } end
for _, s in ipairs(spends) do
  for _, unit in ipairs({ 'tokens', 'nano' }) do
    local sum = tonumber(redis.call('HGET', s[2], unit) or '0') + d[unit]
    redis.call('HSET', s[2], unit, string.format('%.0f', sum))
  end
  redis.call('EXPIRE', s[2], 172800)
end
local hold_s = math.ceil(d.hold_ms / 1000)
if d.slots > 0 then
  redis.call('ZADD', skey, at + d.hold_ms, call .. ' ' .. who)
  redis.call('EXPIRE', skey, hold_s)
end
redis.call('HSET', ckey, 'day', day, 'tokens', string.format('%.0f', d.tokens), 'nano', string.format('%.0f', d.nano))
redis.call('EXPIRE', ckey, hold_s)
return { 'go', 1 }
