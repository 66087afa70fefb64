import { Drawer, type DrawerProps, Modal, type ModalProps } from '@mantine/core'
import { useEffect, useState } from 'react'

/** A dialog that is open while it is rendered. */
export function OpenModal(props: Omit<ModalProps, 'opened'>) {
  useFocusBack()
  return <Modal opened {...props} />
}

/** A drawer that is open while it is rendered. */
export function OpenDrawer(props: Omit<DrawerProps, 'opened'>) {
  useFocusBack()
  return <Drawer opened {...props} />
}

/** Restores the focus on unmount; the kit does so only for dialogs that stay rendered while closed. */
function useFocusBack(): void {
  const [before] = useState(() => document.activeElement)
  useEffect(
    () => () => {
      // The element that had it may be unmounted too, such as the button of a form; nothing had it where an address or a key opened it.
      const target = before?.isConnected && before !== document.body ? before : document.getElementById('content')
      if (target instanceof HTMLElement) target.focus({ preventScroll: true })
    },
    [before],
  )
}
