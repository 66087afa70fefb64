import test from 'ava'
import fc from 'fast-check'
import { isListedItem } from '../../shared/kinds/responses-members.ts'
import { startWorld, type World } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { casesOf, faultOf, samples, send } from '../support/wallet/file-places.ts'
import { items, refusedTypes } from '../support/wallet/file-samples.ts'

let world: World
let account: Account
test.before(async () => {
  world = await startWorld({ ALLOW_PRIVATE_URLS: 'true' })
  account = await world.gateway.account({ usd: '1000' })
})
test.after.always(() => world?.close())

test('every type of item of OpenAI’s SDK is in the table, or refused', t => {
  for (const type of Object.keys(items)) t.true(isListedItem(type === 'untyped' ? undefined : type), type)
  for (const type of refusedTypes) t.false(isListedItem(type), type)
})

test.serial('200 for every kind of item, block and message, with its own files reserved', async t => {
  for (const sample of samples) {
    const one = { name: sample.name, sample, body: sample.body }
    const sent = await send(world, account, one)
    if (sent.param?.endsWith('source.url') || sent.param === 'input.0.content.0.file_url') continue
    t.is(sent.status, 200, `${sample.name}: ${sent.param}`)
    t.is(faultOf(one, sent), null)
  }
})

test.serial('a file at any place of a request is reserved, not sent, or refused by name', async t => {
  const cases = samples.flatMap(casesOf)
  t.log(`${cases.length} cases`)
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: cases.length - 1 }), async index => {
      const one = cases[index]!
      t.is(faultOf(one, await send(world, account, one)), null)
    }),
    { numRuns: 100 },
  )
})
