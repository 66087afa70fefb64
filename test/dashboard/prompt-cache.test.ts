import type { KeysAnswer } from '../../api/dashboard/wire/keys.ts'
import type { RequestDetail } from '../../api/dashboard/wire/requests.ts'
import type { UsageGroups } from '../../api/dashboard/wire/usage.ts'
import { generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

test('what a prompt wrote to the cache and read from it is logged, priced by class, and shown as the hit rate of its key', async t => {
  const { gateway } = world
  const { organisationId, base, visitor } = await signUp(gateway)
  await gateway.services.wallets.deposit({ organisationId, amountNano: 25_000_000_000n, method: 'grant' })
  const key = await gateway.key(organisationId, 'live', { name: 'Agent' })
  await gateway.key(organisationId, 'live', { name: 'Unused' })
  const prompt = 'Look before you leap. '.repeat(200)
  const whole = Math.ceil(prompt.length / 4)
  const ask = async (ttl: string) => {
    const body = saying('claude-opus-5', prompt + ttl, { cache_control: { type: 'ephemeral', ttl } })
    const response = await gateway.fetch('/v1/chat/completions', { key, body })
    t.is(response.status, 200, await response.text())
    const id = response.headers.get('x-generation-id')!
    await generationOf(world, id)
    return visitor.json<RequestDetail>(`${base}/requests/${id}`)
  }
  const tokens = whole + 1
  const saved: number[] = []
  for (const [ttl, written, part, price] of [
    ['1h', [tokens, tokens], 'cache_write_1h', 10],
    ['5m', [tokens, 0], 'cache_write', 6.25],
  ] as const) {
    const first = await ask(ttl)
    t.deepEqual([first.usage.cache_write_tokens, first.usage.cache_write_1h_tokens], written)
    t.is(first.usage.cached_tokens, 0)
    t.like(
      first.cost_parts!.find(one => one.part === part),
      { tokens, usd_per_million: price },
    )
    const second = await ask(ttl)
    t.like(second.usage, { cached_tokens: tokens, cache_write_tokens: 0, cache_write_1h_tokens: 0 })
    t.like(
      second.cost_parts!.find(one => one.part === 'cached_input'),
      { tokens, usd_per_million: 0.5 },
    )
    t.true(first.cache_discount_usd < 0 && second.cache_discount_usd > 0, 'writing costs more, reading less')
    saved.push(first.cache_discount_usd, second.cache_discount_usd)
    for (const { cost_parts: parts, cost_usd: cost } of [first, second]) {
      const sum = parts!.reduce((usd, { cost_usd }) => usd + cost_usd, 0)
      t.true(Math.abs(sum - cost) < 1e-9)
    }
  }
  // $5 less $0.50 for what was read, less $10 or $6.25 beyond $5 for what was written: per million, with the margin.
  const savedUsd = ((tokens * (4.5 - 5) + tokens * (4.5 - 1.25)) * 1.05) / 1e6
  t.is(saved.reduce((usd, one) => usd + one).toFixed(8), savedUsd.toFixed(8))
  const { total, rows } = await visitor.json<UsageGroups>(`${base}/usage/groups?by=model`)
  t.is(total.cache_discount_usd.toFixed(8), savedUsd.toFixed(8))
  t.is(rows[0]!.cache_discount_usd, total.cache_discount_usd)
  const { data } = await visitor.json<KeysAnswer>(`${base}/keys`)
  const shares = Object.fromEntries(data.map(({ name, cache_hit_share: share }) => [name, share]))
  t.like(shares, { Agent: 0.5, Unused: null })
})
