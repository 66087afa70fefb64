/** Browser and system from a user agent: "Firefox on Linux". */
export function browserOf(userAgent: string | null): string {
  return knownBrowser(userAgent ?? '') ?? 'Unknown'
}

/** The same of a browser; of another program its own words: "python-requests/2.32". */
export function programOf(userAgent: string): string {
  return knownBrowser(userAgent) ?? userAgent
}

function knownBrowser(text: string): string | null {
  const browser = ['Edg', 'Firefox', 'Chrome', 'Safari'].find(name => text.includes(`${name}/`))
  const system = ['Windows', 'Android', 'iPhone', 'Mac OS', 'Linux'].find(name => text.includes(name))
  return browser ? `${browser === 'Edg' ? 'Edge' : browser}${system ? ` on ${system}` : ''}` : null
}
