import { useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'

/** Addresses whose opened link is remembered. */
const maxRemembered = 50
/** A page that has not shown its heading or its row by then leaves the focus where it is. */
const maxWaitMs = 15_000

/**
 * What a browser does when it loads a page, for pages that are only rendered: a new page is announced by its title and has the
 * focus on its heading, at its top. Back, the focus is on the link that had led away.
 */
export function NavigationFocus() {
  const [location] = useLocation()
  const [announced, setAnnounced] = useState('')
  const { wasBack, linkOf } = useHistory()
  const last = useRef(location)
  useEffect(returnFocus, [])
  useEffect(() => {
    if (last.current === location) return
    last.current = location
    const isBack = wasBack()
    // Who goes through tabs by keyboard stays on them.
    if (document.activeElement?.role === 'tab') return
    if (!isBack && window.location.hash === '') window.scrollTo(0, 0)
    return keepFocus(isBack ? linkOf(addressNow()) : null)
  }, [location, wasBack, linkOf])
  useEffect(() => {
    const title = document.querySelector('title')!
    const observer = new MutationObserver(() => setAnnounced(document.title))
    observer.observe(title, { childList: true })
    return () => observer.disconnect()
  }, [])
  return (
    <div aria-live="polite" className="visually-hidden">
      {announced}
    </div>
  )
}

/**
 * A button is disabled while its action runs, which takes the focus from it: it gets it back afterwards. If it stays disabled, because its
 * form has nothing more to save, the control before it has the focus. Returns what ends this.
 */
function returnFocus(): () => void {
  let last: EventTarget | null = null
  const observer = new MutationObserver(changes => {
    if (document.activeElement !== document.body) return
    const button = changes.find(({ target }) => target === last)?.target
    if (!(button instanceof HTMLButtonElement) || button.dataset.loading) return
    const controls = [...(button.form?.elements ?? [])].filter(one => one === button || !one.matches(':disabled'))
    const target = button.disabled ? controls[controls.indexOf(button) - 1] : button
    if (target instanceof HTMLElement) target.focus({ preventScroll: true })
  })
  const onFocus = ({ target }: Event) => {
    last = target
  }
  const onPress = () => {
    last = null
  }
  observer.observe(document.body, { subtree: true, attributes: true, attributeFilter: ['disabled', 'data-loading'] })
  document.addEventListener('focusin', onFocus)
  document.addEventListener('pointerdown', onPress)
  return () => {
    observer.disconnect()
    document.removeEventListener('focusin', onFocus)
    document.removeEventListener('pointerdown', onPress)
  }
}

const addressNow = () => window.location.pathname + window.location.search

/**
 * Remembers which link led away from an address, and whether the last change of the path came from the application: one that did not
 * was the browser's, back or forward. (Its event may come after the router has rendered the page.)
 */
function useHistory() {
  const [state] = useState(() => {
    const links = new Map<string, string>()
    let here = addressNow()
    let isOwn = false
    const onPush = () => {
      const link = document.activeElement?.closest('#content a')?.getAttribute('href')
      if (link) {
        links.delete(here)
        links.set(here, link)
        if (links.size > maxRemembered) links.delete(links.keys().next().value!)
      }
      onMove()
    }
    const onMove = () => {
      isOwn ||= here.split('?')[0] !== window.location.pathname
      here = addressNow()
    }
    const wasBack = () => {
      const isBack = !isOwn
      isOwn = false
      here = addressNow()
      return isBack
    }
    return { onPush, onMove, wasBack, linkOf: (address: string) => links.get(address) ?? null }
  })
  useEffect(() => {
    const { onPush, onMove } = state
    // The router raises events of these names for the calls of history.pushState and history.replaceState. They are handled before its
    // own listeners, which render the page.
    window.addEventListener('pushState', onPush, true)
    window.addEventListener('replaceState', onMove, true)
    return () => {
      window.removeEventListener('pushState', onPush, true)
      window.removeEventListener('replaceState', onMove, true)
    }
  }, [state])
  return state
}

/**
 * Keeps the focus on the page's heading, or on the link to `href` as soon as there is one, while the page replaces its skeleton by its
 * data; until its reader does something, or something else has taken the focus. Returns what ends it.
 */
function keepFocus(href: string | null): () => void {
  let given: Element | null = null
  const look = () => {
    const active = document.activeElement
    const page = document.querySelector('main') ?? document.body
    const isTaken = active !== page && active !== given && (page.contains(active) || active?.closest('[role=dialog]'))
    if (isTaken && active !== document.body) return stop()
    const link = href === null ? null : page.querySelector(`a[href="${CSS.escape(href)}"]`)
    const target = link ?? page.querySelector('h1')
    if (!(target instanceof HTMLElement) || target === active) return
    if (!link) target.tabIndex = -1
    given = target
    target.focus({ preventScroll: true })
  }
  const observer = new MutationObserver(look)
  const stop = () => {
    observer.disconnect()
    clearTimeout(timer)
    for (const name of ['keydown', 'pointerdown']) window.removeEventListener(name, stop, true)
  }
  const timer = setTimeout(stop, maxWaitMs)
  for (const name of ['keydown', 'pointerdown']) window.addEventListener(name, stop, true)
  observer.observe(document.body, { childList: true, subtree: true })
  look()
  return stop
}
