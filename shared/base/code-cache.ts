import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

/** Beside the packages: whoever may write there can replace the code itself, which holds for no folder that users share. */
const folder = join(import.meta.dirname, '../../node_modules/.cache/headgate')

/**
 * Lets Node keep what it compiles, and the JavaScript it makes of TypeScript, for the next start. To be called by an entry point
 * before it imports anything else. Where the folder cannot be written, or `NODE_DISABLE_COMPILE_CACHE` is set, everything is compiled anew;
 * `NODE_COMPILE_CACHE` names another folder (docs/decisions/code-cache.md).
 */
export function keepCompiledCode(): void {
  enableCompileCache(folder)
}
