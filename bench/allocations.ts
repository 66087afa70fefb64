// What the gateway allocates for a chat request, by who allocates it: `node bench/allocations.ts [options]`, see README.md.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { drive } from './drive.ts'
import { readOptions } from './lib/options.ts'
import { pinSelf, root } from './lib/processes.ts'
import { add, type CallFrame, isOfFile, labelOf, ownerOf, printLargest } from './lib/profile-names.ts'
import { chatBody } from './lib/request.ts'
import { Rig } from './rig.ts'

type AllocationNode = { callFrame: CallFrame; selfSize: number; children: AllocationNode[] }

const { values: options } = readOptions({ subject: 'gateway', seconds: 5, warm: 20_000, rows: 30 })
const plain = { latencyMs: 0, chunks: 1, intervalMs: 0 }
const writtenWithinMs = 60_000

pinSelf('1')
const preload = join(root, 'bench/lib/sample-allocations.ts')
const rig = new Rig({ behaviours: [plain], subjectProcessors: '0', profileFolder: null, preload })
try {
  const { profile, requests } = await sample()
  print(profile, requests)
} finally {
  await rig.close()
}
process.exit(0)

async function sample(): Promise<{ profile: AllocationNode; requests: number }> {
  await rig.open()
  const file = join(rig.folder, 'allocations.json')
  rig.stores!.env.ALLOCATIONS_FILE = file
  const subject = await rig.subject(options.subject)
  const call = { body: chatBody(plain, false) }
  await drive(rig, subject, 'closed', call, { warm: options.warm })
  const [pid] = subject.pids() as [number]
  process.kill(pid, 'SIGUSR2')
  const { requests } = await drive(rig, subject, 'closed', call, { seconds: options.seconds })
  process.kill(pid, 'SIGUSR2')
  for (const deadline = Date.now() + writtenWithinMs; !existsSync(file); await sleep(50))
    if (Date.now() > deadline) throw new Error('the gateway did not write its profile')
  const { head } = JSON.parse(readFileSync(file, 'utf8')) as { head: AllocationNode }
  return { profile: head, requests: requests! }
}

function print(profile: AllocationNode, requests: number): void {
  const owners = new Map<string, number>()
  const functions = new Map<string, number>()
  let bytes = 0
  const visit = (node: AllocationNode, callers: CallFrame[]) => {
    const stack = [node.callFrame, ...callers]
    if (node.selfSize > 0) {
      bytes += node.selfSize
      add(owners, ownerOf(stack), node.selfSize)
      add(functions, labelOf(stack.find(isOfFile) ?? node.callFrame), node.selfSize)
    }
    for (const child of node.children) visit(child, stack)
  }
  visit(profile, [])
  const each = (sum: number) => `${(sum / requests).toFixed(0).padStart(7)} B`
  console.log(`${(bytes / requests / 1_024).toFixed(1)} kB a request, over ${requests.toFixed(0)} requests`)
  printLargest('by package or file, with what Node does for it', owners, options.rows, each)
  printLargest('by function of a package or file, with what Node does for it', functions, options.rows, each)
}
