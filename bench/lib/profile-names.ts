import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A function as V8's profiles name it. */
export type CallFrame = { functionName: string; url: string; lineNumber: number }

const root = join(import.meta.dirname, '../..')

/** Whether a function is of a file, not of Node or V8: modules of CommonJS have paths, others addresses. */
export function isOfFile({ url }: CallFrame): boolean {
  return url.startsWith('file:') || url.startsWith('/')
}

/** A file of ours relative to the project, anything else without the way to its package. */
function nameOf(url: string): string {
  const [, inPackage] = /.*node_modules\/(.*)/.exec(url) ?? []
  return inPackage ?? (url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url)
}

/** A function with its place. */
export function labelOf({ functionName, url, lineNumber }: CallFrame): string {
  const place = url === '' ? '' : ` ${nameOf(url)}:${lineNumber + 1}`
  return `${functionName || '(anonymous)'}${place}`
}

/** The npm package or own file that a stack (innermost frame first) works for. */
export function ownerOf(stack: CallFrame[]): string {
  const frame = stack.find(isOfFile)
  if (!frame) return stack[0]!.functionName.startsWith('(') ? stack[0]!.functionName : 'Node by itself'
  if (!frame.url.includes('node_modules')) return nameOf(frame.url)
  const parts = nameOf(frame.url).split('/')
  return parts.slice(0, parts[0]!.startsWith('@') ? 2 : 1).join('/')
}

/** Adds an amount under a key. */
export function add(sums: Map<string, number>, key: string, amount: number): void {
  sums.set(key, (sums.get(key) ?? 0) + amount)
}

/** Prints the largest sums as `show` writes them. */
export function printLargest(
  title: string,
  sums: Map<string, number>,
  max: number,
  show: (sum: number) => string,
): void {
  console.log(`\n  ${title}`)
  for (const [key, sum] of [...sums].sort((a, b) => b[1] - a[1]).slice(0, max)) console.log(`  ${show(sum)}  ${key}`)
}
