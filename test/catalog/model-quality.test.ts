import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { catalogFile, type RatedTask } from '../../shared/catalog/schema.ts'
import { test } from '../support/test.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/decisions/model-quality.md'), 'utf8')
const tasks = ['code', 'maths', 'vision'] satisfies RatedTask[]
const { models } = loadCatalog()

/** The rows of the page's table: a model, its quality, and its rank by task. */
const rows = page
  .split('\n')
  .filter(line => /^\| [a-z]+[-\d]/.test(line))
  .map(line => line.split('|').map(cell => cell.trim()))
  .map(([, id = '', quality, ...ranks]) => ({ id, quality: Number(quality), ranks: ranks.map(Number) }))

const byId = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1)

test('the qualities of the shipped catalog are those of the ranks in the decision', t => {
  t.true(rows.length >= 30)
  const expected = new Map<string, Record<string, number>>()
  for (const [index, task] of tasks.entries()) {
    const ranked = rows.filter(({ ranks }) => ranks[index]! > 0).sort((a, b) => a.ranks[index]! - b.ranks[index]!)
    const qualities = ranked.map(({ quality }) => quality).sort((a, b) => b - a)
    for (const [place, { id, quality }] of ranked.entries()) {
      const middle = Math.round((quality + qualities[place]!) / 2)
      const figure = Math.max(quality - 6, Math.min(quality + 6, middle))
      expected.set(id, { ...expected.get(id), [task]: figure })
    }
  }
  for (const { id, quality } of rows) t.is(models.get(id)?.quality, quality, id)
  const given = [...models.values()].flatMap(({ id, task_qualities: qualities }) =>
    qualities ? [[id, qualities] as const] : [],
  )
  t.deepEqual(Object.fromEntries(given.sort(byId)), Object.fromEntries([...expected].sort(byId)))
})

test('each class that has figures is cited, with a date', t => {
  const { quality_sources: sources, models: shipped } = catalogFile.parse(
    JSON.parse(readFileSync(join(import.meta.dirname, '../../shared/catalog/data/chat.json'), 'utf8')),
  )
  const cited = Object.keys(sources).sort()
  t.deepEqual(
    cited,
    [...new Set(shipped.flatMap(({ task_qualities: qualities = {} }) => Object.keys(qualities)))].sort(),
  )
})

test('only models that take images have a quality for vision', t => {
  for (const { id, task_qualities: qualities, input_modalities: takes } of models.values())
    if (qualities?.vision !== undefined) t.true(takes.includes('image'), id)
})
