-- Health of a TrainSweep. It agrees with kstatus: Healthy is Current, Degraded is Failed, all else is InProgress.
-- Only a sweep that succeeded is Healthy: a sync wave that holds one goes on when its checkpoints are proven.
local progressing = { status = "Progressing", message = "Waiting for the operator to look at this version of the sweep" }

if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return progressing
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  conditions[condition.type] = condition
end

local function is(kind, status)
  return conditions[kind] ~= nil and conditions[kind].status == status
end

-- "Reason: message", or as much of it as there is.
local function words(condition)
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

if is("Succeeded", "True") then
  return { status = "Healthy", message = words(conditions.Succeeded) }
end
if is("Succeeded", "False") then
  return { status = "Degraded", message = words(conditions.Succeeded) }
end
-- Not terminal, but only a person can help: a class that does not exist, a spec that KubeRay would refuse.
if is("Stalled", "True") then
  return { status = "Degraded", message = words(conditions.Stalled) }
end
if obj.spec.suspend and is("Suspended", "True") then
  return { status = "Suspended", message = words(conditions.Suspended) }
end

-- Checkpoints that are missing while the job still runs are being mended: no failure before Succeeded says so.
local pending = obj.status.pending
if pending ~= nil and pending.message ~= nil then
  progressing.message = "Waiting (" .. pending.layer .. ", " .. pending.reason .. "): " .. pending.message
elseif conditions.Succeeded ~= nil then
  progressing.message = words(conditions.Succeeded)
  local trials = obj.status.trials
  if conditions.Succeeded.reason == "Running" and trials ~= nil and trials.summary ~= nil and trials.summary ~= "" then
    progressing.message = progressing.message .. " (" .. trials.summary .. " trials)"
  end
end
return progressing
