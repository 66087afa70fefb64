import { Webhook } from 'standardwebhooks'
import { nextPauseMs, retryAfterMs } from '../../shared/webhooks/schedule.ts'
import { webhookSignature } from '../../shared/webhooks/secrets.ts'
import { test } from '../support/test.ts'

const hourMs = 3_600_000
const pauses = [5_000, 300_000, 1_800_000, 2 * hourMs, 5 * hourMs, 10 * hourMs, 10 * hourMs]

test('seven pauses, then the end; a round begins anew for what is sent again by hand', t => {
  for (const round of [0, 8, 16]) {
    t.deepEqual(
      Array.from({ length: 8 }, (_, i) => nextPauseMs(round + i + 1, 0, 0.5)),
      [...pauses, null],
    )
  }
})

test('jittered: every pause is within a tenth of its length, and not always the same', t => {
  for (const [i, pauseMs] of pauses.entries()) {
    t.is(nextPauseMs(i + 1, 0, 0), pauseMs * 0.9)
    t.is(nextPauseMs(i + 1, 0, 1), Math.round(pauseMs * 1.1))
    const seen = new Set(Array.from({ length: 20 }, () => nextPauseMs(i + 1, 0)))
    t.true(seen.size > 1)
    for (const ms of seen) t.true(ms! >= pauseMs * 0.9 && ms! <= pauseMs * 1.1)
  }
})

test('longer, never shorter, when the receiver asks for it; at most 24 hours', t => {
  t.is(nextPauseMs(1, 60_000, 0.5), 60_000)
  t.is(nextPauseMs(2, 60_000, 0.5), 300_000)
  t.is(nextPauseMs(1, 999 * hourMs, 0.5), 24 * hourMs)
  t.is(nextPauseMs(8, 60_000, 0.5), null)
})

test('retry-after: seconds, a date, or nothing that makes sense', t => {
  const nowMs = Date.parse('2026-11-20T00:00:00Z')
  t.is(retryAfterMs('120', nowMs), 120_000)
  t.is(retryAfterMs(' 0 ', nowMs), 0)
  t.is(retryAfterMs('Fri, 20 Nov 2026 00:01:00 GMT', nowMs), 60_000)
  for (const text of ['Fri, 20 Nov 2020 00:01:00 GMT', 'soon', '', '-5', '1e9', '99999999999999']) {
    t.is(retryAfterMs(text, nowMs), 0, text)
  }
})

test('signed as the published vector says, and as the standardwebhooks package signs', t => {
  const secret = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='
  const body = '{"type":"job.completed","timestamp":"2026-11-20T00:00:00Z","data":{"id":"job_1"}}'
  const signature = webhookSignature([secret], 'msg_1', 1_795_132_800, body)
  t.is(signature, 'v1,HZT6TKO6S3FVz/MW9QCi7P+mFMKvaad/9/QAMogjqMc=')
  t.is(signature, new Webhook(secret).sign('msg_1', new Date(1_795_132_800_000), body))
  const both = webhookSignature([secret, 'whsec_bmV3ZXI='], 'msg_1', 1_795_132_800, 'é€😀')
  t.is(both.split(' ').length, 2)
  t.is(both.split(' ')[0], new Webhook(secret).sign('msg_1', new Date(1_795_132_800_000), 'é€😀'))
})
