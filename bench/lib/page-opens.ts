import { startBrowser } from '../../test/support/io/chromium.ts'
import type { BrowserSession } from './browser-session.ts'
import { spread } from './statistics.ts'

const within = { timeout: 30_000 }

/**
 * Runs in the page, whose names are not those of Node. Times are since the start of the navigation, as the page sees its own
 * changes: from outside they are polled, up to half a second late.
 */
const observePage = `
  globalThis.opening = { usableMs: 0, dataMs: 0, longTasksMs: 0 }
  new PerformanceObserver(list => {
    for (const { duration } of list.getEntries()) globalThis.opening.longTasksMs += duration
  }).observe({ type: 'longtask', buffered: true })
  new MutationObserver(() => {
    const { opening } = globalThis
    if (!document.querySelector('main h1, main h2')) return
    opening.usableMs ||= performance.now()
    if (document.querySelector('.mantine-Skeleton-root')) opening.dataMs = 0
    else opening.dataMs ||= performance.now()
  }).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ['class'] })
`

type Opening = { usableMs: number; dataMs: number; longTasksMs: number; kB: number }

/** One page: from its address to its heading (`usableMs`) and to the last placeholder replaced. Medians over the openings. */
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
      await tab.addInitScript({ content: observePage })
      const network = await context.newCDPSession(tab)
      await network.send('Network.enable')
      let bytes = 0
      network.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength))
      const open = async (): Promise<Opening> => {
        bytes = 0
        await tab.goto(session.url + page)
        await tab.waitForFunction('globalThis.opening.dataMs > 0', null, within)
        await tab.waitForLoadState('networkidle')
        return { ...(await tab.evaluate<Omit<Opening, 'kB'>>('globalThis.opening')), kB: bytes / 1_000 }
      }
      opened.push({ page, ...(await open()), cold: true })
      const warm: Opening[] = []
      for (let i = 0; i < times; i++) warm.push(await open())
      const of = (name: keyof Opening) => spread(warm.map(one => one[name])).median
      const medians = { usableMs: of('usableMs'), dataMs: of('dataMs'), longTasksMs: of('longTasksMs'), kB: of('kB') }
      opened.push({ page, ...medians, cold: false })
      await context.close()
    }
    return opened
  } finally {
    await browser.close()
  }
}
