-- Opt-in: Healthy as soon as the sweep is admitted and its cluster runs, as kstatus has it for a Job. For apps whose later
-- waves must not wait for days. A failed sweep is Degraded all the same.
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to look at this version of the sweep" }
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  conditions[condition.type] = condition
end

local function said(kind, status)
  local condition = conditions[kind]
  if condition == nil or condition.status ~= status then
    return nil
  end
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

local failed = said("Succeeded", "False") or said("Stalled", "True")
if failed ~= nil then
  return { status = "Degraded", message = failed }
end
if said("Suspended", "True") ~= nil then
  return { status = "Suspended", message = said("Suspended", "True") }
end
local good = said("Succeeded", "True") or (said("Admitted", "True") and said("ClusterReady", "True"))
if good ~= nil then
  return { status = "Healthy", message = said("Succeeded", "True") or said("Succeeded", "Unknown") }
end
return { status = "Progressing", message = said("Succeeded", "Unknown") or "Waiting for the operator" }
