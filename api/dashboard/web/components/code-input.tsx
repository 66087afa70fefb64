import { TextInput } from '@mantine/core'
import { useEffect, useRef } from 'react'

/** An input for a code from an authenticator app. `focused`: takes the focus when it is mounted. */
export function CodeInput({
  value,
  onChange,
  label = 'Code from your authenticator app',
  focused = false,
}: {
  value: string
  onChange: (value: string) => void
  label?: string
  focused?: boolean
}) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (focused) input.current?.focus()
  }, [focused])
  return (
    <TextInput
      ref={input}
      label={label}
      description="Six digits; the code changes every 30 seconds."
      inputMode="numeric"
      autoComplete="one-time-code"
      pattern="[0-9]{3} ?[0-9]{3}"
      title="Six digits"
      maxLength={7}
      required
      maw={260}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}

/** Removes the space that apps show between the two groups of a code. */
export const codeOf = (text: string) => text.replace(/\s/g, '')
