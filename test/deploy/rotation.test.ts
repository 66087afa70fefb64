// What the doctor says about a rotation of ENCRYPTION_KEY or SIGNING_SECRET.

import { examineRotation, rotationFinding } from '../../api/operator/doctor-rotation.ts'
import { loadConfig } from '../../shared/base/config.ts'
import { keyIdsOf, reportKeys } from '../../shared/keys/reported-keys.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { freshStores, startGateway } from '../support/gateway.ts'
import { storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'

const [one, two] = ['first key '.repeat(4).trim(), 'second key '.repeat(4).trim()]

test('ok, warning or failed: each step of a rotation of ENCRYPTION_KEY', t => {
  const state = (held: string[][], used: string[] | null) => {
    const finding = rotationFinding('ENCRYPTION_KEY', held, used)
    return finding && `${finding.state}: ${finding.detail}`
  }
  t.is(state([], []), null)
  t.regex(state([['a'], ['a']], ['a'])!, /^ok: all 2 processes have a alone/)
  t.regex(state([['a'], ['b', 'a']], ['a'])!, /^warning: 1 of 2 processes cannot read what others write with b/)
  t.regex(state([['a', 'b'], ['a']], ['a'])!, /^warning: a change is rolled out: processes have a,b or a;/)
  t.regex(state([['a', 'b']], ['a'])!, /^ok: no row in the database needs b: put the new key first/)
  t.regex(state([['b', 'a']], ['a', 'b'])!, /^warning: b encrypts, data still needs a: run `operator secrets encrypt`/)
  t.regex(state([['b']], ['a', 'b'])!, /^failed: data is encrypted with a, which 1 processes lack/)
  t.regex(state([['b', 'a']], null)!, /not known$/)
})

test('data of an older key is found, and no key is shown', async t => {
  const stores = await freshStores()
  t.teardown(() => stores.drop())
  const gateway = await startGateway(stores, { ENCRYPTION_KEY: one })
  t.teardown(() => gateway.close())
  const { organisationId } = await gateway.account()
  await getWebhookSecrets(gateway.services, organisationId, Date.now())
  const config = loadConfig({ ...storesEnv(stores), ENCRYPTION_KEY: `${two},${one}` })
  const [current, older] = keyIdsOf(config).encryption
  await reportKeys(gateway.services.redis, { instance: 'web', ...keyIdsOf(config) })
  const findings = await examineRotation(config)
  const detail = `${current} encrypts, data still needs ${older}: run \`operator secrets encrypt\``
  t.deepEqual(findings, [{ state: 'warning', check: 'encryption key', detail }])
})
