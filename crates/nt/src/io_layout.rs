//! The offsets of the I/O manager's structures on x64, which inline code of drivers uses.

/// `DRIVER_OBJECT`.
pub(crate) mod driver {
    pub(crate) const SIZE: usize = 0x150;
    /// Of `Type`.
    pub(crate) const TYPE: i16 = 4;
    pub(crate) const DEVICE_OBJECT: usize = 0x08;
    pub(crate) const DRIVER_START: usize = 0x18;
    pub(crate) const DRIVER_SIZE: usize = 0x20;
    pub(crate) const DRIVER_EXTENSION: usize = 0x30;
    pub(crate) const DRIVER_NAME: usize = 0x38;
    pub(crate) const DRIVER_UNLOAD: usize = 0x68;
    pub(crate) const MAJOR_FUNCTION: usize = 0x70;
    /// Number of major functions.
    pub(crate) const MAJOR_FUNCTIONS: usize = 28;
}

/// `DRIVER_EXTENSION`.
pub(crate) mod driver_extension {
    pub(crate) const SIZE: usize = 0x28;
    pub(crate) const ADD_DEVICE: usize = 0x08;
    pub(crate) const SERVICE_KEY_NAME: usize = 0x18;
}

/// `DEVICE_OBJECT`.
pub(crate) mod device {
    pub(crate) const SIZE: usize = 0x150;
    /// Of `Type`.
    pub(crate) const TYPE: i16 = 3;
    pub(crate) const SIZE_FIELD: usize = 0x02;
    pub(crate) const REFERENCE_COUNT: usize = 0x04;
    pub(crate) const DRIVER_OBJECT: usize = 0x08;
    pub(crate) const NEXT_DEVICE: usize = 0x10;
    pub(crate) const ATTACHED_DEVICE: usize = 0x18;
    pub(crate) const FLAGS: usize = 0x30;
    pub(crate) const CHARACTERISTICS: usize = 0x34;
    pub(crate) const DEVICE_EXTENSION: usize = 0x40;
    pub(crate) const DEVICE_TYPE: usize = 0x48;
    pub(crate) const STACK_SIZE: usize = 0x4C;
    pub(crate) const ALIGNMENT: usize = 0x98;
}

/// `FILE_OBJECT`.
pub(crate) mod file {
    pub(crate) const SIZE: usize = 0xD8;
    /// Of `Type`.
    pub(crate) const TYPE: i16 = 5;
    pub(crate) const DEVICE_OBJECT: usize = 0x08;
}

/// `IRP`.
pub(crate) mod irp {
    pub(crate) const SIZE: usize = 0xD0;
    /// Of `Type`.
    pub(crate) const TYPE: i16 = 6;
    pub(crate) const SIZE_FIELD: usize = 0x02;
    pub(crate) const MDL_ADDRESS: usize = 0x08;
    pub(crate) const FLAGS: usize = 0x10;
    pub(crate) const SYSTEM_BUFFER: usize = 0x18;
    pub(crate) const THREAD_LIST: usize = 0x20;
    pub(crate) const STATUS: usize = 0x30;
    pub(crate) const INFORMATION: usize = 0x38;
    pub(crate) const PENDING_RETURNED: usize = 0x41;
    pub(crate) const STACK_COUNT: usize = 0x42;
    pub(crate) const CURRENT_LOCATION: usize = 0x43;
    pub(crate) const CANCEL: usize = 0x44;
    pub(crate) const USER_IOSB: usize = 0x48;
    pub(crate) const USER_EVENT: usize = 0x50;
    pub(crate) const USER_BUFFER: usize = 0x70;
    pub(crate) const CURRENT_STACK: usize = 0xB8;
}

/// `IO_STACK_LOCATION`.
pub(crate) mod stack {
    pub(crate) const SIZE: usize = 0x48;
    pub(crate) const MAJOR: usize = 0x00;
    pub(crate) const MINOR: usize = 0x01;
    pub(crate) const CONTROL: usize = 0x03;
    /// `Parameters.DeviceIoControl.OutputBufferLength`, `Parameters.Read.Length`.
    pub(crate) const OUTPUT_LENGTH: usize = 0x08;
    /// `Parameters.DeviceIoControl.InputBufferLength`.
    pub(crate) const INPUT_LENGTH: usize = 0x10;
    /// `Parameters.DeviceIoControl.IoControlCode`, `Parameters.Read.ByteOffset`.
    pub(crate) const CONTROL_CODE: usize = 0x18;
    /// `Parameters.DeviceIoControl.Type3InputBuffer`.
    pub(crate) const TYPE3_INPUT: usize = 0x20;
    pub(crate) const DEVICE_OBJECT: usize = 0x28;
    pub(crate) const COMPLETION_ROUTINE: usize = 0x38;
    pub(crate) const CONTEXT: usize = 0x40;
}
