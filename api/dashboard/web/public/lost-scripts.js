// Where the first scripts cannot be loaded, as while the gateway is replaced, the page would stay at "Loading …": it says so, and is
// loaded anew when the gateway answers.
const tries = 'headgate-lost-scripts'
const maxTries = 5
const pauseMs = 3_000

addEventListener(
  'error',
  ({ target }) => {
    if (target instanceof HTMLScriptElement) void recover()
  },
  true,
)

async function recover() {
  if (document.readyState === 'loading') await new Promise(resolve => addEventListener('DOMContentLoaded', resolve))
  const text = document.querySelector('#root > [role=status]')
  if (!text) return
  const tried = Number(sessionStorage.getItem(tries))
  if (tried >= maxTries) {
    text.textContent = 'The dashboard could not be loaded. Load this page again, or ask whoever runs the gateway.'
    return
  }
  text.textContent = 'The dashboard could not be loaded. This page tries again by itself.'
  do await new Promise(resolve => setTimeout(resolve, pauseMs))
  while (!(await isThere()))
  sessionStorage.setItem(tries, String(tried + 1))
  location.reload()
}

function isThere() {
  return fetch(location.href, { method: 'HEAD', cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )
}
