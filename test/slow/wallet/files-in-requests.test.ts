// All cases of which test/wallet/files-in-requests.test.ts tries a few.
import test from 'ava'
import { startWorld, type World } from '../../support/chat/gateway.ts'
import { casesOf, faultOf, samples, send } from '../../support/wallet/file-places.ts'

let world: World
test.before(async () => {
  world = await startWorld({ ALLOW_PRIVATE_URLS: 'true' })
})
test.after.always(() => world?.close())

test('a file at any place of any request is reserved, not sent, or refused by name', async t => {
  t.timeout(900_000)
  const account = await world.gateway.account({ usd: '1000' })
  const faults: string[] = []
  const statuses = new Map<number, number>()
  for (const one of samples.flatMap(casesOf)) {
    const sent = await send(world, account, one)
    statuses.set(sent.status, (statuses.get(sent.status) ?? 0) + 1)
    const fault = faultOf(one, sent)
    if (fault) faults.push(fault)
  }
  t.log(Object.fromEntries(statuses))
  t.deepEqual(faults, [])
})
