import { startBrowser } from '../../test/support/io/chromium.ts'
import type { BrowserSession } from './browser-session.ts'
import { spread } from './statistics.ts'

const within = { timeout: 30_000 }

/** Runs in the page, whose names are not those of Node. */
const observeLongTasks = `
  globalThis.longTasksMs = 0
  new PerformanceObserver(list => {
    for (const { duration } of list.getEntries()) globalThis.longTasksMs += duration
  }).observe({ type: 'longtask', buffered: true })
`

type Opening = { readyMs: number; longTasksMs: number; kB: number }

/** One page: from its address to a page without placeholders whose requests are answered. Medians over the openings. */
export type Opened = Opening & { page: string; cold: boolean }

/**
 * Opens pages of an organisation in Chromium, signed in: each once with an empty cache (`cold`), then several times with a
 * warm one. `kB` is what the network carried, compressed; `longTasksMs` the sum of the main thread's tasks of 50 ms or more.
 */
export async function openPages(session: BrowserSession, pages: readonly string[], times: number): Promise<Opened[]> {
  const browser = await startBrowser()
  try {
    const opened: Opened[] = []
    for (const page of pages) {
      // The pages forbid to evaluate the text of a script, which measuring them needs.
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, bypassCSP: true })
      await context.addCookies(session.cookies)
      const tab = await context.newPage()
      await tab.addInitScript({ content: observeLongTasks })
      const network = await context.newCDPSession(tab)
      await network.send('Network.enable')
      let bytes = 0
      network.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength))
      const open = async (): Promise<Opening> => {
        bytes = 0
        const startedMs = performance.now()
        await tab.goto(session.url + page)
        await tab.locator('main h1, main h2').first().waitFor(within)
        await tab.waitForFunction(`!document.querySelector('.mantine-Skeleton-root')`, null, within)
        const readyMs = performance.now() - startedMs
        await tab.waitForLoadState('networkidle')
        const longTasksMs = await tab.evaluate<number>('globalThis.longTasksMs')
        return { readyMs, longTasksMs, kB: bytes / 1_000 }
      }
      opened.push({ page, ...(await open()), cold: true })
      const warm: Opening[] = []
      for (let i = 0; i < times; i++) warm.push(await open())
      const of = (name: 'readyMs' | 'longTasksMs' | 'kB') => spread(warm.map(one => one[name])).median
      opened.push({ page, readyMs: of('readyMs'), longTasksMs: of('longTasksMs'), kB: of('kB'), cold: false })
      await context.close()
    }
    return opened
  } finally {
    await browser.close()
  }
}
