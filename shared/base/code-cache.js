import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'

/**
 * A web process loads 1,400 modules, 470 of them TypeScript of this repository. Stripping their types and compiling
 * all of them takes 40 % of the CPU time of a start. There is deliberately no build step that would do it once: the
 * code in the repository is what runs.
 *
 * The commands of both processes and of the operator load this file by `--import`, before the entry point. Node then
 * caches the JavaScript and V8's code of every module. It validates both against the source at each start, so an update
 * needs no step; files are written at process exit, under a temporary name first, so processes can share the folder and
 * none reads a partial file.
 *
 * This is the only file that is JavaScript, as it is loaded before the cache is on: stripping the types of a single file
 * makes a process load the parser that does it, which takes 0.1 s of CPU time and 16 MB for as long as it runs.
 *
 * - The folder is `node_modules/.cache/headgate`. Node trusts its contents, so no other user may be able to write to
 *   it: Node's own default, a fixed name in `/tmp`, could be created beforehand by any user of the machine. Write
 *   access to `node_modules` allows changing the code anyway. `NODE_COMPILE_CACHE` names another folder,
 *   `NODE_DISABLE_COMPILE_CACHE=1` disables the cache.
 * - An unwritable folder costs only time. Each start is then as slow as the first.
 * - What Node reads from the folder stays in memory (15 MB); the parser alone would be as much.
 * - Cache files are per version of Node, user and installation path (15 MB). So a platform that starts every process
 *   in a fresh copy of the file system, such as Heroku, gains only where a process is replaced within a dyno. An
 *   image gains when the gateway has started and exited once during its build, with the user and path it will run
 *   with.
 *
 * Deferred work at start. The libraries of accounts, payments, images, PDFs and media are loaded with the first
 * request that needs them, those of emails, S3, metrics and traces where they are configured; what chat needs is
 * loaded before the port is opened. That includes Prisma's query compiler (`$connect`, which contacts no server): it
 * loads while Redis is being connected. Of its two builds the small one is used: the client caches compiled query
 * shapes, so the build made for speed was not measurably faster at queries, and took 40 ms longer to load and 40 MB
 * more memory in each process.
 *
 * The first start after an installation takes 10 % longer than without a cache, and its exit 0.2 s. Where CPU time is
 * scarce, as with several processes on one processor, a later start takes about half of the time.
 */

/**
 * Beside the packages: write access here already implies write access to the code itself, which is not true of any
 * shared folder.
 */
const folder = join(import.meta.dirname, '../../node_modules/.cache/headgate')

// A thread of V8 that compiles while the heap is full waits for the main thread, and an exit waits for that thread: the process
// would hang for good (docs/decisions/process-exit.md).
for (const flag of ['--no-concurrent-sparkplug', '--no-maglev-build-code-on-background']) setFlagsFromString(flag)

// If the folder is not writable, or `NODE_DISABLE_COMPILE_CACHE` is set, everything is compiled again;
// `NODE_COMPILE_CACHE` selects another folder.
enableCompileCache(folder)
