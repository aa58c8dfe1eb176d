-- The health of a VirtualMachinePool for Argo CD, from its conditions.
local health = { status = "Progressing", message = "waiting for the controller" }
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "the pool is being deleted"
  return health
end
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local function holds(name)
  return conditions[name] ~= nil and conditions[name].status == "True"
end
local ready = conditions.Ready
if ready ~= nil then
  health.message = ready.message
end
if holds("Ready") then
  health.status = "Healthy"
elseif holds("Stalled") or holds("ReplicaFailure") then
  health.status = "Degraded"
  if ready == nil then
    health.message = (holds("Stalled") and conditions.Stalled or conditions.ReplicaFailure).message
  end
elseif ready ~= nil and ready.reason == "Paused" then
  health.status = "Suspended"
end
return health
