import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { libraryEnvironment, missingPackages, unpacked } from '../../../dev/debian.ts'
import type { Visitor } from '../dashboard/dashboard.ts'

const run = promisify(execFile)

type Program = { file: string; env: NodeJS.ProcessEnv }

const directory = join(import.meta.dirname, '../../../.data/chromium')
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
/** Without the browser's own windows, which the others draw even where nobody sees them. */
const debianPackages = ['chromium-headless-shell', 'fonts-liberation']
const versionTimeoutMs = 20_000
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/**
 * Starts a headless Chromium: the one installed, else Debian's, downloaded once into the repository's `.data`. To be closed
 * by the test that started it; it also ends with the test's process. Throws an Error where there is neither.
 */
export async function startBrowser(): Promise<Browser> {
  const { file, env } = (await installed()) ?? (await downloaded())
  return chromium.launch({ executablePath: file, args: flags, env })
}

/** A page waits for so long for what it is to show, as `eventually` does. */
const pageTimeoutMs = 60_000

type PageOptions = BrowserContextOptions & {
  /** Who is signed in; absent = nobody. */
  visitor?: Pick<Visitor, 'cookies'> | undefined
  /** The test that an error of the page fails, and at whose end it is closed; absent = the caller closes its context. */
  t?: { teardown(run: () => unknown): void; fail(message: string): void }
}

/** An empty page in a context of its own, without animations. `url`: of the gateway. */
export async function newPage(browser: Browser, url: string, { visitor, t, ...options }: PageOptions): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options })
  t?.teardown(() => context.close())
  if (visitor) await context.addCookies(visitor.cookies.map(([name, value]) => ({ name, value, url })))
  const page = await context.newPage()
  page.setDefaultTimeout(pageTimeoutMs)
  page.on('pageerror', error => t?.fail(error.message))
  return page
}

/** Shows a page of the dashboard in light or dark colours, and waits until every colour has changed. */
export async function showInColors(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme })
  await page.locator(`html[data-mantine-color-scheme="${colorScheme}"]`).waitFor()
  await page.evaluate(
    'Promise.allSettled(document.getAnimations().filter(one => one instanceof CSSTransition).map(one => one.finished))',
  )
}

async function installed(): Promise<Program | null> {
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(':')]
  const files = names.flatMap(name => folders.map(folder => join(folder, name)))
  for (const file of files) {
    const program = { file, env: process.env }
    if (existsSync(file) && (await runs(program))) return program
  }
  return null
}

function downloaded(): Promise<Program> {
  return unpacked({
    directory,
    packages: () => missingPackages(debianPackages),
    prepare: folder => writeFile(join(folder, fontsFile), fonts),
    find: unpackedIn,
  }).catch(cause => {
    throw new Error('No Chromium found. Install one (for example: apt-get install chromium).', { cause })
  })
}

const fontsFile = 'fonts.conf'
const fonts = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>Liberation Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>Liberation Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>Liberation Mono</family></prefer></alias>
</fontconfig>
`

async function unpackedIn(folder: string): Promise<Program | null> {
  const env = { ...(await libraryEnvironment(folder)), FONTCONFIG_FILE: join(folder, fontsFile) }
  // Beside it lies a script of the same name, which looks for it in the system's folders.
  const program = { file: join(folder, 'usr/lib/chromium/chromium-headless-shell'), env }
  return (await runs(program)) ? program : null
}

async function runs({ file, env }: Program): Promise<boolean> {
  return run(file, ['--version'], { env, timeout: versionTimeoutMs }).then(
    ({ stdout }) => /^(Chromium|Google Chrome) \d/.test(stdout),
    () => false,
  )
}
