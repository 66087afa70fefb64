import { Button, type ButtonProps, Stack } from '@mantine/core'
import type { UseMutationResult } from '@tanstack/react-query'
import type { FormEvent, ReactNode } from 'react'
import { Failure } from './states.tsx'

/** A form that runs a mutation: one submission at a time, its error above the button. */
export function Form<T>({
  mutation,
  submit,
  children,
  ...button
}: {
  mutation: UseMutationResult<T, Error, void>
  /** The label of the button. */
  submit: string
  children: ReactNode
} & ButtonProps) {
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (!mutation.isPending) mutation.mutate()
  }
  return (
    <form onSubmit={send}>
      <Stack>
        {children}
        {mutation.error && <Failure error={mutation.error} />}
        <Button type="submit" loading={mutation.isPending} {...button}>
          {submit}
        </Button>
      </Stack>
    </form>
  )
}
