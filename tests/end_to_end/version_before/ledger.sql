BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE attempts (
	attempt_id VARCHAR NOT NULL, 
	flow_run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	pool VARCHAR NOT NULL, 
	host VARCHAR NOT NULL, 
	node VARCHAR NOT NULL, 
	gpu_type VARCHAR, 
	gpu_ids JSON NOT NULL, 
	capacity_type VARCHAR NOT NULL, 
	price_micro_usd_per_gpu_hour BIGINT, 
	admitted_at DATETIME NOT NULL, 
	started_at DATETIME, 
	released_at DATETIME, 
	last_seen_at DATETIME, 
	pid BIGINT, 
	pid_created_at DOUBLE, 
	drain_requested_at DATETIME, 
	drain_reason VARCHAR, 
	drain_deadline_at DATETIME, 
	drain_message VARCHAR, 
	preempted_by VARCHAR, 
	end_reason VARCHAR, 
	end_message VARCHAR, 
	exit_code INTEGER, 
	is_charged_failure BOOLEAN NOT NULL, 
	is_end_estimated BOOLEAN NOT NULL, 
	restored_from VARCHAR, 
	checkpoint VARCHAR, 
	checkpointed_at DATETIME, shares JSON, infrastructure VARCHAR, settlement JSON, zone VARCHAR, 
	CONSTRAINT pk_attempts PRIMARY KEY (attempt_id), 
	CONSTRAINT fk_attempts_flow_run_id FOREIGN KEY(flow_run_id) REFERENCES runs (flow_run_id), 
	CONSTRAINT uq_attempts_flow_run_id_number UNIQUE (flow_run_id, number)
);
INSERT INTO "attempts" VALUES('attempt-1','run-1',1,'POOL','HOST','HOST','a100-80gb','["virtual-0", "virtual-1", "virtual-2", "virtual-3"]','on-demand',3600000,'2026-01-02 03:04:10.123456','2026-01-02 03:04:11.123456',NULL,'2026-01-02 03:04:20.123456',1001,1001.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,'run-1/ck','2026-01-02 03:04:15.123456','[{"node": "HOST", "gpu_ids": ["virtual-0", "virtual-1", "virtual-2", "virtual-3"], "share_milli": 1000, "mig_starts": []}]',NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('attempt-2','run-2',1,'POOL','HOST','HOST','a100-80gb','["virtual-4", "virtual-5"]','on-demand',3600000,'2026-01-02 03:04:10.123456','2026-01-02 03:04:11.123456',NULL,'2026-01-02 03:04:20.123456',1002,1002.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL,'[{"node": "HOST", "gpu_ids": ["virtual-4", "virtual-5"], "share_milli": 1000, "mig_starts": []}]',NULL,NULL,NULL);
CREATE TABLE runs (
	flow_run_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	flow_name VARCHAR NOT NULL, 
	deployment VARCHAR, 
	pool VARCHAR NOT NULL, 
	queue VARCHAR, 
	team VARCHAR, 
	user VARCHAR, 
	project VARCHAR, 
	experiment VARCHAR, 
	model VARCHAR, 
	workload_type VARCHAR, 
	priority BIGINT NOT NULL, 
	submitted_at DATETIME NOT NULL, 
	provenance VARCHAR NOT NULL, 
	final_state VARCHAR, 
	CONSTRAINT pk_runs PRIMARY KEY (flow_run_id)
);
INSERT INTO "runs" VALUES('run-1','running','count_until_released','count_until_released/d','POOL','low','vision',NULL,'p','p','resnet','training',100,'2026-01-02 03:04:01.123456','measured',NULL);
INSERT INTO "runs" VALUES('run-2','ended','count_until_released','count_until_released/d','POOL','low','vision',NULL,'p','p','resnet','training',100,'2026-01-02 03:04:01.123456','measured',NULL);
CREATE INDEX ix_attempts_admitted_at ON attempts (admitted_at);
CREATE INDEX ix_attempts_released_at ON attempts (released_at);
CREATE INDEX ix_attempts_open ON attempts (pool, host) WHERE released_at IS NULL;
COMMIT;
