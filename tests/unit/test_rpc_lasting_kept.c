/*
 * tests/unit/test_rpc_lasting_kept.c - the bytes that a lasting channel keeps until they are
 * confirmed: loans, limits, and a budget for several channels.
 */
#define _GNU_SOURCE
#include "tests/unit/rpc_lasting.h"

static void without_a_connection_writes_go_on_to_the_limit(void **state)
{
	static char bytes[4096];
	struct ck_chan *lasting;
	struct iovec iov;
	int ret = 0, count = 0;

	(void)state;
	assert_int_equal(ck_lasting_create("peer", NULL, 64 << 10, &lasting), 0);
	ck_chan_timeout(lasting, 50);
	while (ret == 0 && count < 100) {
		iov = (struct iovec){bytes, sizeof(bytes)};
		ret = ck_chan_writev(lasting, &iov, 1);
		count += ret == 0;
	}
	assert_int_equal(ret, -ETIMEDOUT);
	assert_int_equal(count, 16);
	ck_lasting_give_up(lasting, -ENOENT);
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), -ENOENT);
	ck_chan_close(lasting);
}

/* Lent bytes may be changed after reclaim has returned, and arrive as they were. */
static void reclaimed_bytes_are_the_callers_again(void **state)
{
	static char bytes[200000], got[sizeof(bytes)];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ck_chan *chan[2];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(ck_chan_lend(chan[0], &iov, 1, 0), 0);
	ck_chan_reclaim(chan[0]);
	memset(bytes, 'y', sizeof(bytes));
	link_pair(chan, NEVER, NEVER, false);
	ck_lasting_resend(chan[0]);
	assert_int_equal(ck_chan_read(chan[1], got, sizeof(got)), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 'x');
	close_pair(chan);
}

/* Of two loans, the first is the lender's again, and the second is not copied. */
static void loans_are_reclaimed_one_by_one(void **state)
{
	static char bytes[2][200000], got[sizeof(bytes)];
	struct ck_chan *chan[2];
	uint64_t until[2];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	memset(bytes, 'x', sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		struct iovec iov = {bytes[i], sizeof(bytes[i])};

		assert_int_equal(ck_chan_lend_until(chan[0], &iov, 1, 0, &until[i]), 0);
	}
	ck_chan_reclaim_until(chan[0], until[0]);
	memset(bytes, 'y', sizeof(bytes));
	link_pair(chan, NEVER, NEVER, false);
	ck_lasting_resend(chan[0]);
	assert_int_equal(ck_chan_read(chan[1], got, sizeof(got)), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], i < sizeof(got) / 2 ? 'x' : 'y');
	ck_chan_reclaim(chan[0]);
	close_pair(chan);
}

/* The frame with the last byte of a loan that is to be reclaimed asks the peer to confirm. */
static void a_loan_asks_for_its_confirmation(void **state)
{
	static char bytes[200000], got[sizeof(bytes)];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ck_chan *lasting, *plain;
	uint32_t head[2];
	uint64_t until;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	for (int asks = 0; asks < 2; asks++) {
		iov = (struct iovec){bytes, sizeof(bytes)};
		assert_int_equal(asks ? ck_chan_lend_until(lasting, &iov, 1, 0, &until)
				      : ck_chan_lend(lasting, &iov, 1, 0),
				 0);
		assert_int_equal(ck_chan_read(plain, head, sizeof(head)), 0);
		assert_int_equal(ntohl(head[0]), sizeof(bytes) | (asks ? 0x40000000u : 0));
		assert_int_equal(ck_chan_read(plain, got, sizeof(got)), 0);
	}
	assert_int_equal(until, 2 * sizeof(bytes));
	send_head(plain, 0, (uint32_t)until);
	ck_chan_reclaim_until(lasting, until);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

#define BUDGET (4u << 20)
#define SHARERS 12

/* How much @chan keeps of what is written to it without a connection. */
static size_t fill_up(struct ck_chan *chan)
{
	static unsigned char piece[16 << 10];
	struct iovec iov = {piece, sizeof(piece)};
	size_t kept = 0;

	ck_chan_timeout(chan, 10);
	while (ck_chan_writev(chan, &iov, 1) == 0) {
		iov = (struct iovec){piece, sizeof(piece)};
		kept += sizeof(piece);
	}
	return kept;
}

static void channels_with_a_budget_keep_no_more_together(void **state)
{
	struct ck_lasting_budget budget = {.limit = BUDGET};
	const struct ck_lasting_owner owner = {.budget = &budget};
	struct ck_chan *chan[SHARERS];
	size_t kept[SHARERS], all = 0;

	(void)state;
	for (int i = 0; i < SHARERS; i++) {
		assert_int_equal(ck_lasting_create("peer", &owner, 1u << 20, &chan[i]), 0);
		kept[i] = fill_up(chan[i]);
		assert_in_range(kept[i], CK_LASTING_FREE, 1u << 20); /* each can go on */
		all += kept[i];
	}
	assert_int_equal(kept[0], 1u << 20);
	assert_in_range(all, BUDGET / 2, BUDGET + SHARERS * CK_LASTING_FREE);
	assert_int_equal(fill_up(chan[SHARERS - 1]), 0);
	ck_chan_close(chan[0]); /* its part is free again */
	assert_true(fill_up(chan[SHARERS - 1]) > 0);
	for (int i = 1; i < SHARERS; i++)
		ck_chan_close(chan[i]);
	assert_int_equal(atomic_load(&budget.used), 0);
}

/* Lent bytes are copied when their owner wants them back: that counts too. Confirmed bytes do no
 * longer. */
static void confirmed_bytes_go_back_to_the_budget(void **state)
{
	static unsigned char first[2 << 20], second[2 << 20];
	struct ck_lasting_budget budget = {.limit = 3u << 20};
	struct ck_replay r = {.limit = CK_LASTING_LIMIT, .budget = &budget};

	(void)state;
	assert_true(ck_replay_lend(&r, first, sizeof(first)));
	assert_true(ck_replay_lend(&r, second, sizeof(second)));
	assert_int_equal(ck_replay_own(&r, sizeof(first)), 0);
	assert_int_equal(ck_replay_own(&r, UINT64_MAX), -ENOBUFS);
	ck_replay_confirm(&r, sizeof(first));
	assert_int_equal(ck_replay_own(&r, UINT64_MAX), 0);
	while (ck_replay_grow(&r) == 0)
		; /* to the rest */
	assert_int_equal(r.size, 1u << 20);
	assert_int_equal(atomic_load(&budget.used), budget.limit);
	ck_replay_confirm(&r, sizeof(first) + sizeof(second));
	assert_int_equal(atomic_load(&budget.used), r.size); /* less than half: the ring stays */
	budget.limit = r.size;
	ck_replay_confirm(&r, r.to);
	assert_int_equal(atomic_load(&budget.used), 0);
	ck_replay_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_connection_writes_go_on_to_the_limit),
		cmocka_unit_test(reclaimed_bytes_are_the_callers_again),
		cmocka_unit_test(loans_are_reclaimed_one_by_one),
		cmocka_unit_test(a_loan_asks_for_its_confirmation),
		cmocka_unit_test(channels_with_a_budget_keep_no_more_together),
		cmocka_unit_test(confirmed_bytes_go_back_to_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
