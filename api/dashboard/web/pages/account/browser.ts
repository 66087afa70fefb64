/** Browser and system from a user agent: "Firefox on Linux". */
export function browserOf(userAgent: string | null): string {
  const text = userAgent ?? ''
  const browser = ['Edg', 'Firefox', 'Chrome', 'Safari'].find(name => text.includes(`${name}/`))
  const system = ['Windows', 'Android', 'iPhone', 'Mac OS', 'Linux'].find(name => text.includes(name))
  return browser ? `${browser === 'Edg' ? 'Edge' : browser}${system ? ` on ${system}` : ''}` : 'Unknown'
}
