import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mutated, mutations } from '../prove/mutations.ts'
import { isTitled, named, titlesIn } from '../prove/named.ts'
import { readResults, tablesOf } from '../prove/report.ts'
import { test } from '../support/test.ts'

for (const mutation of mutations)
  test(`the broken build of the proof can be made: ${mutation.name}`, async t => {
    t.true((await mutated(mutation)).includes(mutation.to))
  })

test('the page of the proof has the results that were published', async t => {
  const page = await readFile(join(import.meta.dirname, '../../docs/proof.md'), 'utf8')
  const [, results] = /<!-- results: [^\n]+ -->\n([\s\S]*)<!-- end of results -->/.exec(page) ?? []
  t.is(results?.trim(), tablesOf(await readResults()).trim())
})

test('every fault of failoverbench and every complaint has tests, and their titles stand in their files', t => {
  t.deepEqual([named.scenarios.length, named.complaints.length], [16, 30])
  for (const [i, { name }] of named.complaints.entries()) t.true(name.startsWith(`${i + 1}. `), name)
  const files = new Map<string, string[]>()
  for (const { name, tests } of [...named.scenarios, ...named.complaints]) {
    t.true(tests.length > 0, name)
    for (const [file, title] of tests) {
      if (!files.has(file)) files.set(file, titlesIn(file))
      const isThere = files.get(file)!.some(one => one === title || isTitled(one, title))
      t.true(isThere, `${file} › ${title}`)
    }
  }
})

test('every fault and complaint that was published has run, and none failed', async t => {
  const { named: published } = await readResults()
  if (!published) return void t.pass('nothing was published')
  const names = (all: readonly { name: string }[]) => all.map(({ name }) => name)
  t.deepEqual(names(published.scenarios), names(named.scenarios))
  t.deepEqual(names(published.complaints), names(named.complaints))
  for (const { name, ran, failed } of [...published.scenarios, ...published.complaints]) {
    t.true(ran > 0, name)
    t.deepEqual(failed, [], name)
  }
})
