import { useEffect, useRef } from 'react'

/**
 * A ref to a part of a page that shows one step after another: each new step has the focus on its first field, or else on its first
 * button, since what had the focus is gone. `initially`: the first step as well.
 */
export function useFocusFirst(step: string, { initially }: { initially: boolean }) {
  const part = useRef<HTMLDivElement>(null)
  const last = useRef(initially ? null : step)
  useEffect(() => {
    if (last.current === step) return
    last.current = step
    const first =
      part.current?.querySelector<HTMLElement>('input') ?? part.current?.querySelector<HTMLElement>('button')
    first?.focus()
  }, [step])
  return part
}
