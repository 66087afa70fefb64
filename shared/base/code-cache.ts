import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

/**
 * Beside the packages: write access here already implies write access to the code itself, which is not true of any
 * shared folder.
 */
const folder = join(import.meta.dirname, '../../node_modules/.cache/headgate')

/**
 * Enables Node's on-disk compile cache, including the JavaScript it generates from TypeScript. An entry point must call
 * it before it imports anything else. If the folder is not writable, or `NODE_DISABLE_COMPILE_CACHE` is set, everything
 * is compiled again; `NODE_COMPILE_CACHE` selects another folder (docs/decisions/code-cache.md).
 */
export function enableCodeCache(): void {
  enableCompileCache(folder)
}
