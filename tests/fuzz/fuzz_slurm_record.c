/*
 * tests/fuzz/fuzz_slurm_record.c - any text as a reservation of the Slurm plugin, or as its list of
 * servers: refused, or such that no file outside of the ledger is named. A reservation that is
 * printed is read as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "slurm/pool.h"
#include "slurm/record.h"
#include "tests/fuzz/standalone.h"

static void check_record(const char *text)
{
	char printed[CK_SLURM_RECORD_TEXT];
	struct ck_slurm_record record, again;

	if (ck_slurm_record_parse(text, &record) < 0)
		return;
	CK_FUZZ_CHECK(ck_slurm_record_print(&record, printed) < sizeof(printed));
	CK_FUZZ_CHECK(ck_slurm_record_parse(printed, &again) == 0);
	CK_FUZZ_CHECK(strcmp(again.error, record.error) == 0);
	CK_FUZZ_CHECK(record.error[0] || again.gpus == record.gpus);
	CK_FUZZ_CHECK(!strchr(record.server, '/') && record.server[0] != '.');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_slurm_pool pool;
	struct ck_slurm_why why = {""};
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	check_record(text);
	if (ck_slurm_pool_parse(text, &pool, &why) < 0)
		CK_FUZZ_CHECK(why.text[0]);
	else
		for (unsigned int i = 0; i < pool.count; i++)
			CK_FUZZ_CHECK(!strchr(pool.servers[i].address, '/') &&
				      pool.servers[i].gpus > 0 &&
				      pool.servers[i].gpus <= CK_SLURM_GPUS);
	free(text);
	return 0;
}
