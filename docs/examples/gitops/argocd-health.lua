-- The health of a VirtualMachinePool for Argo CD, from its condition Ready.
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
for _, condition in ipairs(status.conditions) do
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.reason == "Blocked" then
      health.status = "Degraded"
    elseif condition.reason == "Paused" then
      health.status = "Suspended"
    end
  end
end
return health
