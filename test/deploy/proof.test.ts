import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mutated, mutations } from '../prove/mutations.ts'
import { test } from '../support/test.ts'

for (const mutation of mutations)
  test(`the broken build of the proof can be made: ${mutation.name}`, async t => {
    t.true((await mutated(mutation)).includes(mutation.to))
  })

test('the page of the proof has the place for its results', async t => {
  const page = await readFile(join(import.meta.dirname, '../../docs/proof.md'), 'utf8')
  t.regex(page, /<!-- results: [^\n]+ -->[\s\S]*<!-- end of results -->/)
})
