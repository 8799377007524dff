-- slurm/job_submit.lua - makes licences of --cricket and --cricket-type, so that Slurm counts remote GPUs: a job that
-- asks for 2 GPUs of type h200 gets the licences cricket_h200:2, and waits until there are so many.
--
-- slurm.conf:  JobSubmitPlugins=lua  Licenses=cricket_h200:16
-- A site that has a script of its own calls cricket_submit and cricket_modify from it.

local DEFAULT_TYPE = "gpu" -- as slurm/plugin.c has it
local PREFIX = "_SLURM_SPANK_OPTION_cricket_"

-- The value of an option; nil: it was not given. A second one is refused: which one the nodes see is not certain.
local function option(job, name)
	local value, count = nil, 0
	for _, entry in pairs(job.spank_job_env or {}) do
		local found = entry:match("^" .. PREFIX .. name .. "=(.*)$")
		if found then
			value, count = found, count + 1
		end
	end
	return value, count > 1
end

local function refuse(message)
	slurm.log_user("cricket: " .. message)
	return slurm.ERROR
end

local function names_ours(licences)
	return ("," .. (licences or "")):find("[,;]%s*cricket_") ~= nil
end

function cricket_submit(job)
	local gpus, twice = option(job, "cricket")
	local kind, twice_kind = option(job, "cricket_type")
	if twice or twice_kind then
		return refuse("an option is given twice")
	end
	if names_ours(job.licenses) then
		return refuse("licences cricket_... come from --cricket=N")
	end
	if not gpus then
		if kind then
			return refuse("--cricket-type without --cricket=N")
		end
		return slurm.SUCCESS
	end
	kind = kind or DEFAULT_TYPE
	if not gpus:match("^%d%d?$") or tonumber(gpus) < 1 or tonumber(gpus) > 64 or not kind:match("^[%w_]+$") then
		return refuse("--cricket or --cricket-type is wrong")
	end
	local licence = "cricket_" .. kind .. ":" .. tonumber(gpus)
	if job.licenses and job.licenses ~= "" then
		licence = job.licenses .. "," .. licence
	end
	job.licenses = licence
	return slurm.SUCCESS
end

function cricket_modify(job, record, uid)
	if uid ~= 0 and job.licenses and (names_ours(job.licenses) or names_ours(record.licenses)) then
		-- Slurm shows the user no message here, only the error's text.
		slurm.log_info("cricket: user %u may not change the licences of job %u", uid, record.job_id)
		return slurm.ESLURM_ACCESS_DENIED
	end
	return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, uid)
	return cricket_submit(job)
end

function slurm_job_modify(job, record, partitions, uid)
	return cricket_modify(job, record, uid)
end

return slurm.SUCCESS
