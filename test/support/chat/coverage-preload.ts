/**
 * Loaded into a gateway process by `--import`: tells the test that started it, over IPC, which functions of the product
 * ran between `start` and `stop`. Functions are counted by V8's precise coverage.
 */
import { Session } from 'node:inspector/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(import.meta.dirname, '../../..')
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

/** The functions of the product that ran since the last call, as `file: names`, by file. */
async function takeFunctions(): Promise<string[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const lines: string[] = []
  for (const { url, functions } of result) {
    const path = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : ''
    if (!/^(api|shared)\//.test(path) || path.startsWith('shared/generated/')) continue
    const names = functions.filter(({ ranges }) => ranges[0]!.count > 0).map(({ functionName }) => functionName)
    const named = [...new Set(names)].filter(name => name !== '')
    if (named.length > 0) lines.push(`${path}: ${named.join(', ')}`)
  }
  return lines
}

process.on('message', async message => {
  const functions = await takeFunctions()
  process.send!(message === 'start' ? [] : functions)
})
// The channel does not keep the process from ending.
process.channel?.unref()
